package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/records"
	"tidegate/internal/route"
	"tidegate/web/templates"
)

// Bounds of typed text, in characters.
const (
	maxKeyText  = 100
	maxPathText = 2000

	maxForwarded = 1000
)

// explainForm holds the typed fields of the call to explain.
type explainForm struct {
	key, api, stage, method, path, address, forwarded form.Input

	proxies proxies.Trusted
}

func readExplainForm(r *http.Request, trusted proxies.Trusted) explainForm {
	v := r.URL.Query()
	f := explainForm{
		key:     form.Typed(v, "key", maxKeyText),
		api:     form.Typed(v, "api", route.MaxAPILen),
		stage:   form.Typed(v, "stage", route.MaxStageLen),
		method:  form.Typed(v, "method", route.MaxMethodLen),
		path:    form.Typed(v, "path", maxPathText),
		address: form.Typed(v, "address", form.MaxInput),

		forwarded: form.Typed(v, "forwarded", maxForwarded), proxies: trusted,
	}
	if f.method.Text == "" {
		f.method.Text = http.MethodGet
	}
	if f.path.Text == "" {
		f.path.Text = "/"
	}
	return f
}

func (f *explainForm) errors() int { return form.CountErrors(f.key, f.path, f.address) }

// call validates the form and returns the typed call, and why its address counts.
func (f *explainForm) call() (c enforce.Call, why string) {
	trim := strings.TrimSpace
	c = enforce.Call{Route: route.Call{API: trim(f.api.Text), Stage: trim(f.stage.Text),
		Method: strings.ToUpper(trim(f.method.Text)), Path: trim(f.path.Text)}}
	if !strings.HasPrefix(c.Route.Path, "/") {
		f.path.Error = "A path begins with a slash, such as /orders/7."
	}
	if text := trim(f.address.Text); text != "" {
		var ok bool
		c.Address, c.Network, why, ok = app.ClientOf(f.proxies, text, trim(f.forwarded.Text))
		if !ok {
			f.address.Error = "Enter an address such as 203.0.113.7 or 2001:db8::1."
		}
	}
	return c, why
}

func (f *explainForm) view(action string) templates.ExplainForm {
	all := templates.ExplainForm{
		Action: action, Hidden: templates.Hidden{Name: "on", Value: "explain"},
		Errors: f.errors(),
		Fields: []templates.FormField{
			form.TextField("key", "Key: name, id or secret", "", maxKeyText, f.key),
			form.TextField("method", "Method", "GET", route.MaxMethodLen, f.method),
			form.TextField("path", "Path", "/", maxPathText, f.path),
			form.TextField("api", "API id", "any", route.MaxAPILen, f.api),
			form.TextField("stage", "Stage", "any", route.MaxStageLen, f.stage),
			form.TextField("address", "Address that API Gateway sees", "unknown", form.MaxInput, f.address),
		},
	}
	if header := f.proxies.Header(); header != "" {
		all.Fields = append(all.Fields,
			form.TextField("forwarded", header, "none", maxForwarded, f.forwarded))
	}
	return all
}

func (d *dashboard) showExplain(w http.ResponseWriter, r *http.Request) error {
	f := readExplainForm(r, d.Proxies)
	p := templates.ExplainPage{Page: d.Page(r, "Explain")}
	status := http.StatusOK
	if strings.TrimSpace(f.key.Text) != "" {
		if err := d.explain(r, &f, &p); err != nil {
			return page.Failed("explain", err)
		}
		if f.errors() > 0 {
			status = http.StatusUnprocessableEntity
		}
	}
	p.Form = f.view(d.Path("/search"))
	return d.Render(w, r, status, templates.Explain(p))
}

// explain adds the explanation of the typed call to p. If f is invalid, it sets the
// errors of f instead.
func (d *dashboard) explain(r *http.Request, f *explainForm, p *templates.ExplainPage) error {
	call, why := f.call()
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return err
	}
	k, err := d.explainedKey(r, set, f, p)
	if err != nil || f.errors() > 0 || k.ID == "" {
		return err
	}
	e, err := d.Checker.Explain(r.Context(), set, k, call)
	if err != nil {
		return err
	}
	p.Answer = d.explanation(set, k, e)
	switch {
	case why != "":
		p.Answer.Client = call.Address.String() + ": " + why + "."
	case dependsOnAddress(set, e):
		p.Answer.Client = "unknown: limits of each address and address lists are left out. " +
			"Enter the address that API Gateway sees."
	}
	return nil
}

// dependsOnAddress reports whether the client's address matters to the explained call.
func dependsOnAddress(set *policy.Set, e enforce.Explanation) bool {
	limited := slices.ContainsFunc(set.Language().Candidates(e.Effective.Caller),
		func(a limits.Applied) bool { return a.Who == limits.EachAddress })
	return limited || len(set.Deny)+len(set.Allow)+len(set.Exempt) > 0
}

// explainedKey returns the typed key. If several keys have the name, it adds them to p as
// choices and returns no key. It rejects a secret, which would stay in the address.
func (d *dashboard) explainedKey(r *http.Request, set *policy.Set, f *explainForm,
	p *templates.ExplainPage) (policy.Key, error) {
	found, err := d.Keys.ResolveKeys(r.Context(), set, f.key.Text)
	switch {
	case err != nil:
		return policy.Key{}, err
	case found.Secret:
		f.key = form.Input{Error: "You pasted a whole secret. Its id is enough. Consider rotating the key."}
		if len(found.Keys) > 0 {
			f.key.Text = found.Keys[0].ID
		}
	case len(found.Keys) == 0:
		f.key.Error = "No key has this id or name."
	case len(found.Keys) > 1:
		p.Choices = page.KeyChoices(found.Keys, found.More, func(k policy.Key) string {
			query := r.URL.Query()
			query.Set("key", k.ID)
			return page.Address(d.Path("/explain"), query)
		})
	case found.Keys[0].Status == policy.Unreadable:
		f.key.Error = "This key was written by another Tidegate version."
	default:
		return found.Keys[0], nil
	}
	return policy.Key{}, nil
}

func (d *dashboard) explanation(set *policy.Set, k policy.Key, e enforce.Explanation) *templates.Explanation {
	c := e.Result
	x := &templates.Explanation{
		Name:     page.Clip(k.Name, page.MaxName),
		Address:  d.keyPath(k),
		Verdict:  verdictText(e),
		Allowed:  c.Allowed,
		Response: responseTo(e.Refused, c),
		Why:      limitReasons(app.NewSubject(set, k, nil, records.State{}, c.Now)),
		Cost:     costFrom(e),
	}
	for _, m := range e.Routes {
		named, _ := set.Route(m.Name)
		x.Routes = append(x.Routes, templates.RouteMatch{
			Name: page.Clip(m.Name, page.MaxName), Pattern: m.Pattern, Cost: routeCost(named),
			SetsCost: m.Name == e.CostFrom,
		})
	}
	for _, l := range c.Limits {
		row := wording.Applied(l, e.Effective.Plan.Name, c.Now)
		row.Takes = page.Number(l.Cost)
		x.Limits = append(x.Limits, row)
	}
	return x
}

// costFrom says what the call costs, and which route says so.
func costFrom(e enforce.Explanation) string {
	cost := page.Number(e.Result.Cost)
	switch {
	case len(e.Routes) == 0:
		return "The call falls under no route and costs " + cost + "."
	case e.CostFrom == "":
		return "The call costs " + cost + ": no route names another cost."
	}
	return "The call costs " + cost + ", by the route " + page.Clip(e.CostFrom, page.MaxName) + "."
}

// routeCost describes the cost that a route names.
func routeCost(r limits.Route) string {
	if r.Cost.IsZero() && !r.Settle {
		return "not named"
	}
	return policydoc.CostText(r)
}

func verdictText(e enforce.Explanation) string {
	c := e.Result
	switch {
	case e.Refused != "":
		return "Refused: " + e.Refused + "."
	case !c.BannedUntil.IsZero():
		return "Banned until " + page.Instant(c.BannedUntil).Text + "."
	case e.Exempt:
		return "Exempt address: nothing is counted."
	case c.Allowed && c.Cost == 0:
		return "The call costs nothing."
	case c.Allowed && !c.WouldAllow:
		return "Allowed. A limit in shadow would deny it."
	case c.Allowed:
		return "All limits have room."
	}
	if wait := c.RetryAfter(); wait > 0 {
		text := "Next call passes in " + page.Span(wait) + ", at " + page.Instant(c.Now.Add(wait)).Text + "."
		if by, found := c.Binding(); found {
			text = "Denied by " + answer.NameOf(by.Limit) + ". " + text
		}
		return text
	}
	return "Denied: the call costs " + strconv.FormatInt(c.Cost, 10) + ", more than a limit can allow."
}

// responseTo returns the response that a client of a REST API receives. An HTTP API
// answers 403 without these fields.
func responseTo(refused string, result enforce.Result) templates.Response {
	r := templates.Response{Heading: "What a client gets now"}
	response := answer.To(result)
	limits := [][2]string{{"RateLimit", response.RateLimit}, {"RateLimit-Policy", response.RateLimitPolicy}}
	switch {
	case refused != "":
		r.Advice = "401: " + refused + "."
		r.Text = httpText(http.StatusUnauthorized,
			[][2]string{{"WWW-Authenticate", `Bearer realm="tidegate"`}},
			fmt.Sprintf(
				`{"type":"about:blank","title":"Unauthorized","status":401,"detail":%q,"message":%[1]q,"instance":"urn:uuid:…"}`, answer.Unauthorized))
	case result.Allowed:
		r.Advice = "Response headers a client receives"
		r.Text = headerText(limits)
	default:
		denial := response.Denial
		if denial.RetryAfter > 0 {
			limits = append(limits, [2]string{"Retry-After", fmt.Sprint(denial.RetryAfter)})
		}
		r.Advice = "From a REST API. An HTTP API answers 403."
		r.Text = httpText(http.StatusTooManyRequests, limits,
			fmt.Sprintf(
				`{"type":%q,"title":"Too Many Requests","status":429,"detail":%q,"message":%[2]q,`+
					`"violated-policies":[%[3]q],"retry-after":%[4]q,"instance":"urn:uuid:…"}`,
				denial.Type, denial.Detail, denial.Policy, denial.Wait))
	}
	return r
}

func httpText(status int, fields [][2]string, body string) string {
	fields = append([][2]string{{"Cache-Control", "no-store"},
		{"Content-Type", "application/problem+json"}}, fields...)
	return fmt.Sprintf("HTTP/1.1 %d %s\n%s\n%s", status, http.StatusText(status), headerText(fields), body)
}

// headerText returns header fields in HTTP/1.1 format. It omits fields without a value.
func headerText(fields [][2]string) string {
	var b strings.Builder
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	return b.String()
}
