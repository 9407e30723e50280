package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/answer"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// OwnerPath is the path of the page for key owners, who have no account.
const OwnerPath = "/self"

// ownerRoutes returns no routes if key owners have no page.
func (d *dashboard) ownerRoutes() []auth.Route {
	if d.Owners == nil {
		return nil
	}
	return []auth.Route{
		{Pattern: "GET /self", Role: auth.Owner, Handle: d.showOwnerForm},
		{Pattern: "POST /self", Role: auth.Owner, Handle: d.showOwnKey},
	}
}

func (d *dashboard) ownerPage(r *http.Request) templates.OwnerPage {
	p := templates.OwnerPage{Page: d.Bare(r, "Your API key"), Submit: d.Path(OwnerPath)}
	p.Page.Home = p.Submit
	p.Page.Theme.Next = p.Submit
	return p
}

func (d *dashboard) showOwnerForm(w http.ResponseWriter, r *http.Request) {
	d.Render(w, r, http.StatusOK, templates.Owner(d.ownerPage(r)))
}

// showOwnKey shows the key whose secret was typed. It reads the secret from the request's
// body, which appears in no log and no browser history.
func (d *dashboard) showOwnKey(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	p := d.ownerPage(r)
	status := http.StatusOK
	own, err := d.Owners.View(r.Context(), r.RemoteAddr, r.PostForm.Get("key"))
	var throttled *app.ThrottledError
	switch {
	case errors.Is(err, policy.ErrUnknownKey):
		status = http.StatusUnauthorized
		p.Error = "This key is not valid."
	case errors.As(err, &throttled):
		status = http.StatusTooManyRequests
		seconds := answer.WholeSeconds(throttled.RetryAfter)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		p.Error = "Too many requests. Try again in " + page.Span(time.Duration(seconds)*time.Second) + "."
	case err != nil:
		d.FailStore(w, r, "show own key", err)
		return
	default:
		p.Key = ownKey(own)
	}
	d.Render(w, r, status, templates.Owner(p))
}

func ownKey(own app.OwnKey) *templates.OwnKey {
	k := &templates.OwnKey{
		Name: page.Clip(own.Name, page.MaxName),
		Facts: []templates.Fact{
			{Name: "Key", Value: own.ID}, {Name: "Plan", Value: page.Clip(own.Plan, page.MaxName)},
		},
	}
	if !own.Expires.IsZero() {
		k.Facts = append(k.Facts, templates.Fact{Name: "Expires", Value: page.Instant(own.Expires).Text})
	}
	if own.Grace.After(own.Now) {
		k.Facts = append(k.Facts,
			templates.Fact{Name: "Previous secret expires", Value: page.Instant(own.Grace).Text})
	}
	for _, u := range own.Limits {
		k.Windows = append(k.Windows, wording.Window(u))
	}
	for _, u := range own.Group {
		k.Shared = append(k.Shared, wording.Window(u))
	}
	for _, day := range slices.Backward(own.Days) {
		k.Days = append(k.Days, templates.OwnDay{
			Date: day.Start.Format(time.DateOnly), Allowed: page.Number(day.Allowed),
			Denied: page.Number(day.Denied), Cost: page.Number(day.Cost),
		})
	}
	return k
}
