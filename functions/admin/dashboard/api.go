package dashboard

import (
	"tidegate/functions/admin/api"
	"tidegate/functions/admin/auth"
)

// apiRoutes are what the API answers.
func (s *server) apiRoutes() []route {
	if s.away {
		return nil // every request needs the store, and is told so
	}
	var routes []route
	for _, r := range api.Routes(s.BasePath, api.Services{Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Tokens: s.Tokens, Log: s.Log}) {
		routes = append(routes, route{pattern: r.Pattern, need: needOf(r.Role), handle: r.Handle, maxBody: r.MaxBody})
	}
	return routes
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
