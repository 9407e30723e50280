package server

import (
	"tidegate/functions/admin/api"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard"
)

// mounted are the routes of the pages and of the API.
func (s *server) mounted() []route {
	all := s.pageRoutes()
	if !s.away { // else the API is not there, and every request is told so
		all = append(all, api.Routes(s.BasePath, api.Services{
			Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Tokens: s.Tokens, Log: s.Log,
			Journal: s.Journal,
		})...)
	}
	var routes []route
	for _, r := range all {
		routes = append(routes, route{pattern: r.Pattern, need: needOf(r.Role), handle: r.Handle,
			maxBody: r.MaxBody})
	}
	return routes
}

func (s *server) pageRoutes() []auth.Route {
	services := dashboard.Services{
		Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Sessions: s.Sessions, Tokens: s.Tokens,
		Pepper: s.Pepper, StoreVersion: s.StoreVersion, Log: s.Log, Stage: s.Stage, Release: s.Release,
		Journal: s.Journal,
	}
	if s.Provider != nil {
		services.ProviderHost = s.Provider.Host()
	}
	return dashboard.Routes(s.Renderer, services)
}

func needOf(r auth.Role) need {
	switch r {
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
