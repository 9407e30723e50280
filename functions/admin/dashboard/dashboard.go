// Package dashboard owns the pages for keys, callers, settings, the overview and the
// explanation of a call, and mounts the pages of its subpackages and of package command. A page reads a
// request and renders a view model of package templates. The server imports this package
// and authorizes each request first. Pages must not import the server or the API.
package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/command"
	"tidegate/functions/admin/dashboard/alerts"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/groups"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/policies"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/proxies"
	"tidegate/internal/records"
)

// Services are the dependencies of the pages. All are required unless a comment says
// otherwise.
type Services struct {
	Keys         *app.Registry
	Checker      *enforce.Checker // explains calls
	Records      *records.Reader
	Crossings    *crossing.Store
	Sessions     func(context.Context) ([]session.Own, error) // of the user
	Tokens       *token.Store
	StoreVersion func(context.Context) (string, error)
	Log          *slog.Logger
	Proxies      proxies.Trusted
	// Stage and Release are shown on the settings page and may be empty. ProviderHost is
	// the host of the OpenID provider; empty without one.
	Stage, Release, ProviderHost string
	// ExampleURL is the address of example calls; empty if none is known.
	ExampleURL string
}

// exampleCall returns the command line of a call with a header.
func (d *dashboard) exampleCall(header string) string {
	return `curl -i -H "` + header + `" "` + cmp.Or(d.ExampleURL, "$API_URL") + `"`
}

// exampleWithKey is the header of an example call with an API key, whose secret the reader
// has.
const exampleWithKey = "x-api-key: $KEY"

// dashboard serves the pages. It is safe for concurrent use.
type dashboard struct {
	*page.Renderer
	Services
	*changes.Changes
	denials *denials.Pages
	audit   *auditlog.Pages
	groups  *groups.Pages
}

// Routes returns the routes of all pages, which render through r.
func Routes(r *page.Renderer, services Services) []auth.Route {
	keys := services.Keys
	shared := changes.New(r, keys)
	r.CountDenied = func(ctx context.Context) (int, bool, error) {
		set, err := keys.Set(ctx)
		if err != nil {
			return 0, false, err
		}
		r.RememberOutage(wording.Outage(set.Plans))
		return keys.CountDenied(ctx, set)
	}
	denied := denials.New(r, keys, services.Records)
	d := &dashboard{
		Renderer: r,
		Services: services,
		Changes:  shared,
		denials:  denied,
		audit:    auditlog.New(r, shared, keys),
		groups:   groups.New(r, keys, denied),
	}
	commands := &command.Pages{Renderer: r, Services: command.Services{Keys: keys, Records: services.Records,
		Tokens: services.Tokens, Changes: shared, Effects: policies.Effects(shared, keys,
			services.Records)}}
	return slices.Concat(commands.Routes(), d.routes(), d.keyRoutes(),
		policies.Routes(r, shared, keys, services.Records, services.Log), d.denials.Routes(),
		d.audit.Routes(), d.groups.Routes(), alerts.New(r, keys, services.Crossings).Routes())
}

func (d *dashboard) routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /{$}", Role: auth.Viewer, Handle: d.showOverview},
		{Pattern: "GET /explain", Role: auth.Viewer, Handle: d.showExplain},
		{Pattern: "GET /overrides", Role: auth.Viewer, Handle: d.redirectOverrides},
		{Pattern: "GET /settings", Role: auth.Viewer, Handle: d.showSettings},
		{Pattern: "GET /settings/tokens.csv", Role: auth.Editor, Handle: d.tokenList().Export,
			Deadline: auth.Slow},
	}
}

func (d *dashboard) keyRoutes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /keys", Role: auth.Viewer, Handle: d.showKeys},
		{Pattern: "GET /search", Role: auth.Viewer, Handle: d.showFound},
		{Pattern: "POST /search", Role: auth.Viewer, Handle: d.search},
		{Pattern: "GET /keys.csv", Role: auth.Viewer, Handle: d.exportKeys, Deadline: auth.Slow},
		{Pattern: "GET /keys/{id}", Role: auth.Viewer, Handle: d.showKey},
		{Pattern: "GET /secrets/{id}", Role: auth.Editor, Handle: d.showSecret},

		{Pattern: "GET /callers", Role: auth.Viewer, Handle: d.showCallers},
		{Pattern: "GET /callers.csv", Role: auth.Viewer, Handle: d.callerList().Export, Deadline: auth.Slow},
		{Pattern: "GET /callers/{id}", Role: auth.Viewer, Handle: d.showCaller},
	}
}
