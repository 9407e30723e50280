package server

import (
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

func needOf(r auth.Role) need {
	switch r {
	case auth.Owner:
		return owner
	case auth.Settler:
		return settler
	case auth.Viewer:
		return viewer
	case auth.Editor:
		return editor
	case auth.Nobody:
	}
	return undecided
}
