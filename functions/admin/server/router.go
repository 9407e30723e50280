package server

import (
	"fmt"
	"net/http"
	"strings"

	"tidegate/functions/admin/api"
)

// router finds the route of a request.
type router struct {
	mux   *http.ServeMux
	known map[string]route // by the patterns registered with the mux
}

// find returns the route of a request and whether there is one, and the handler of mux.
func (r *router) find(q *http.Request) (found route, known bool, handler http.Handler) {
	handler, pattern := r.mux.Handler(q)
	found, known = r.known[pattern]
	return found, known, handler
}

// routerOf returns the router for a request's path.
func (s *server) routerOf(r *http.Request) (*router, error) {
	if !s.away && strings.HasPrefix(r.URL.Path, s.Path(api.Prefix+"/")) {
		return s.api()
	}
	return s.pages, nil
}

// newRouter registers routes.
func (s *server) newRouter(routes []route) (*router, error) {
	made := &router{http.NewServeMux(), map[string]route{}}
	for _, r := range routes {
		if r.need <= undecided || r.need > settler {
			return nil, fmt.Errorf("route %s does not say who may ask for it", r.pattern)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + s.Path(path)
		made.mux.HandleFunc(pattern, r.handle)
		made.known[pattern] = r
	}
	return made, nil
}
