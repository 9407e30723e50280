package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// routes is everything that the dashboard serves. What is not listed needs a session to
// be refused politely; see dispatch.
func (s *server) routes() []route {
	return slices.Concat(s.mounted(), []route{
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

// newMux registers routes and returns them by their patterns.
func (s *server) newMux(routes []route) (*http.ServeMux, map[string]route, error) {
	mux, known := http.NewServeMux(), map[string]route{}
	for _, r := range routes {
		if r.need <= undecided || r.need > settler {
			return nil, nil, fmt.Errorf("route %s does not say who may ask for it", r.pattern)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + s.Path(path)
		mux.HandleFunc(pattern, r.handle)
		known[pattern] = r
	}
	return mux, known, nil
}
