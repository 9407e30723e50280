package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/answer"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// OwnerPath is the path, below Prefix, by which owners view their key.
const OwnerPath = "/self"

// keyHeader is the header field with an API key, the same as in calls to protected APIs.
const keyHeader = "X-API-Key"

// ownerInput is the caller's address and its secret, which is sent in a header field and
// never in the URL.
type ownerInput struct{ remote, secret string }

// Resolve reads the header fields. It ignores a field that is sent more than once.
func (in *ownerInput) Resolve(ctx huma.Context) []error {
	in.remote = ctx.RemoteAddr()
	var keys, bearers []string
	ctx.EachHeader(func(name, value string) {
		switch http.CanonicalHeaderKey(name) {
		case http.CanonicalHeaderKey(keyHeader):
			keys = append(keys, value)
		case "Authorization":
			bearers = append(bearers, value)
		}
	})
	switch {
	case len(keys) == 1:
		in.secret = keys[0]
	case len(keys) == 0 && len(bearers) == 1:
		if scheme, text, _ := strings.Cut(bearers[0], " "); strings.EqualFold(scheme, "Bearer") {
			in.secret = text
		}
	}
	return nil
}

// Day is the calls of one UTC day.
type Day struct {
	Date    string `json:"date" doc:"Day in UTC" example:"2026-11-21"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied" doc:"Calls that a limit denied"`
	Refused int64  `json:"refused" doc:"Calls refused for any other cause"`
	Cost    int64  `json:"cost" doc:"Total cost of the allowed calls"`
	AtLeast bool   `json:"atLeast,omitempty" doc:"Calls may be missing"`
	NotKept bool   `json:"notKept,omitempty" doc:"Nothing is known of the day"`
}

func daysOf(points []records.Point) []Day {
	days := make([]Day, len(points))
	for i, p := range points {
		days[i] = Day{p.Start.Format(time.DateOnly), p.Allowed, p.Denied, p.Refused, p.Cost, p.AtLeast,
			p.NotKept}
	}
	return days
}

type ownerOutput struct {
	CacheControl string `header:"Cache-Control"`
	Vary         string `header:"Vary"`
	Body         struct {
		ID      string           `json:"id"`
		Name    string           `json:"name"`
		Plan    string           `json:"plan"`
		Expires *time.Time       `json:"expires,omitempty"`
		Grace   *time.Time       `json:"graceUntil,omitempty" doc:"Until when the previous secret is valid"`
		Limits  []app.LimitState `json:"limits" doc:"Current state of the enforced limits of the key and of its group"`
		Days    []Day            `json:"days" doc:"The last 30 days, oldest first"`
	}
}

func (a *api) registerOwner() {
	rest.Register(a.Group("owner"), rest.Operation{
		Pattern: "GET " + OwnerPath, ID: "get-own-key", Role: auth.Owner,
		Summary: "Get the limits and the usage of the calling key",
		Details: "Counts no call. Each key may send 60 requests a minute.",
	}, a.ownKey)
}

func (a *api) ownKey(ctx context.Context, in *ownerInput) (*ownerOutput, error) {
	own, err := a.Owners.View(ctx, in.remote, in.secret)
	var throttled *app.ThrottledError
	switch {
	case errors.Is(err, policy.ErrUnknownKey):
		p := rest.NewProblem(http.StatusUnauthorized, answer.Unauthorized)
		p.GetHeaders().Set("WWW-Authenticate", `Bearer realm="tidegate"`)
		return nil, p
	case errors.As(err, &throttled):
		p := rest.NewProblem(http.StatusTooManyRequests, "Too many requests from this key or address.")
		return nil, p.RetryAfter(answer.WholeSeconds(throttled.RetryAfter))
	case err != nil:
		return nil, err
	}
	// A shared cache must not serve one key's answer to another.
	out := &ownerOutput{CacheControl: "private, max-age=1", Vary: keyHeader + ", Authorization"}
	b := &out.Body
	b.ID, b.Name, b.Plan = own.ID, own.Name, own.Plan
	b.Expires, b.Grace = schema.Given(own.Expires), schema.Given(own.Grace)
	b.Limits, b.Days = app.StatesOf(own.Set, own.Limits), daysOf(own.Days)
	return out, nil
}
