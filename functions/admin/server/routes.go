package server

import (
	"net/http"
	"slices"

	"tidegate/functions/admin/api"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard"
)

// The paths below the base path where the owner of a key sees it: an operation and a
// page.
const (
	OwnerAPIPath = api.Prefix + api.OwnerPath
	OwnerPath    = dashboard.OwnerPath
)

// route handles a pattern: method and path, as in http.ServeMux, without the base path.
// Machines may use paths below /api/, and get errors as JSON.
type route struct {
	pattern string
	need    need
	handle  http.HandlerFunc
	resumes bool  // as auth.Route has it
	maxBody int64 // bytes of a request's body; 0 means the maximum of a form
}

// routes returns all routes but the API's. See dispatch for requests without a route.
func (s *server) routes() []route {
	return slices.Concat(mounted(s.pageRoutes()), []route{
		{pattern: "GET /healthz", need: open, handle: s.health},
		{pattern: "GET /healthz/live", need: open, handle: s.alive},
		{pattern: "GET /static/{file}", need: open, handle: s.static},
		{pattern: "POST /theme", need: open, handle: s.saveTheme},
		{pattern: "GET /login", need: guest, handle: s.showLogin},
		{pattern: "POST /login", need: guest, handle: s.login},
		{pattern: "GET /login/oidc", need: guest, handle: s.startProviderLogin},
		{pattern: "GET /login/oidc/callback", need: guest, handle: s.finishProviderLogin},
		{pattern: "GET /resume", need: viewer, handle: s.showKept},
		{pattern: "POST /resume", need: viewer, handle: s.resume},
		{pattern: "POST /logout", need: viewer, handle: s.logout},
		{pattern: "POST /settings/sessions/end", need: viewer, handle: s.endSessions},
	})
}

// apiRoutes returns the routes of the API.
func (s *server) apiRoutes() []route {
	return mounted(api.Routes(s.BasePath, api.Services{
		Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Crossings: s.Crossings,
		Tokens: s.Tokens, Log: s.Log, Journal: s.Journal, Owners: s.owners(s.OwnerAPI),
	}))
}

// mounted turns routes of the pages or the API into those of the server.
func mounted(all []auth.Route) []route {
	var routes []route
	for _, r := range all {
		routes = append(routes, route{pattern: r.Pattern, need: needOf(r.Role), handle: r.Handle,
			maxBody: r.MaxBody, resumes: r.Resumes})
	}
	return routes
}

func (s *server) pageRoutes() []auth.Route {
	services := dashboard.Services{
		Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Sessions: s.Sessions, Tokens: s.Tokens,
		StoreVersion: s.StoreVersion, Log: s.Log, Stage: s.Stage, Release: s.Release,
		Journal: s.Journal, Owners: s.owners(s.OwnerPage), Crossings: s.Crossings,
	}
	if s.Provider != nil {
		services.ProviderHost = s.Provider.Host()
	}
	return dashboard.Routes(s.Renderer, services)
}

// owners returns the use cases of keys' owners, or nil if they are off.
func (s *server) owners(on bool) *app.Owners {
	if !on {
		return nil
	}
	return &app.Owners{Keys: s.Keys, Usage: s.Usage, Throttle: s.Owners}
}
