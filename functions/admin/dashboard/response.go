package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	answers "tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/web/templates"
)

// responseNow is what a client with this key gets now, on a call that falls under no
// route.
func (d *dashboard) responseNow(ctx context.Context, set *policy.Set,
	k policy.Key) (templates.Response, error) {
	fromAnywhere := *set
	fromAnywhere.Allow = nil // the call comes from no address, which no list admits
	e, err := d.Checker.Explain(ctx, &fromAnywhere,
		k, enforce.Call{Address: netip.Addr{}, Route: routing.Call{Method: http.MethodGet, Path: "/"}})
	if err != nil {
		return templates.Response{}, err
	}
	return responseTo(e), nil
}

// responseTo writes what a client of a REST API gets, in full; an HTTP API answers 403
// without these words.
func responseTo(e enforce.Explanation) templates.Response {
	r := templates.Response{Heading: "What a client gets now"}
	switch {
	case e.Refused != "":
		r.Advice = "401: " + e.Refused + "."
		r.Text = httpText(http.StatusUnauthorized,
			[][2]string{{"WWW-Authenticate", `Bearer realm="tidegate"`}},
			fmt.Sprintf(
				`{"type":"about:blank","title":"Unauthorized","status":401,"detail":%q,"instance":"urn:uuid:…"}`, answers.Unauthorized))
	case e.Result.Allowed:
		r.Advice = "Response headers a client receives"
		response := answers.To(e.Result)
		r.Text = fieldLines([][2]string{{"RateLimit", response.RateLimit},
			{"RateLimit-Policy", response.RateLimitPolicy}})
	default:
		r.Advice = "From a REST API. An HTTP API answers 403."
		r.Text = denialText(e.Result)
	}
	return r
}

func denialText(c enforce.Result) string {
	response := answers.To(c)
	denial := response.Denial
	body := fmt.Sprintf(
		`{"type":%q,"title":"Too Many Requests","status":429,"detail":%q,"violated-policies":[%q],`+
			`"retry-after":%q,"instance":"urn:uuid:…"}`, denial.Type, denial.Detail, denial.Policy,
		denial.Wait())
	return httpText(http.StatusTooManyRequests, [][2]string{
		{"RateLimit", response.RateLimit}, {"RateLimit-Policy", response.RateLimitPolicy},
		{"Retry-After", fmt.Sprint(denial.RetryAfter)},
	}, body)
}

func httpText(status int, fields [][2]string, body string) string {
	fields = append([][2]string{{"Cache-Control", "no-store"},
		{"Content-Type", "application/problem+json"}}, fields...)
	return fmt.Sprintf("HTTP/1.1 %d %s\n%s\n%s", status, http.StatusText(status), fieldLines(fields), body)
}

func fieldLines(fields [][2]string) string {
	var b strings.Builder
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	return b.String()
}
