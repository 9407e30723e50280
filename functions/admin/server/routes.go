package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tidegate/functions/admin/api"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/dashboard/page"
)

// OwnerPath is the path below the base path of the operation that shows a key to its
// owner.
const OwnerPath = api.Prefix + api.OwnerPath

// route handles a pattern: method and path, as in http.ServeMux, without the base path.
// Machine tokens are accepted below /api/ only, where errors are JSON.
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
	services := api.Services{
		Keys: s.Keys, Checker: s.Checker, Usage: s.Usage, Crossings: s.Crossings,
		Tokens: s.Tokens, Log: s.Log, Journal: s.Journal,
	}
	if s.OwnerView {
		services.Owners = &app.Owners{Keys: s.Keys, Usage: s.Usage, Throttle: s.Owners}
	}
	return mounted(api.Routes(s.BasePath, services))
}

// mounted converts routes of the pages or the API to those of the server.
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
		Journal: s.Journal, Crossings: s.Crossings,
	}
	if s.Provider != nil {
		services.ProviderHost = s.Provider.Host()
	}
	return dashboard.Routes(s.Renderer, services)
}

// need is what a route requires of a request. A route with the zero value stops the
// start.
type need int

const (
	undecided need = iota
	open           // anybody; no session is looked up
	guest          // anybody; a session is looked up
	owner          // holders of an API key, which the route checks; no session is looked up
	viewer         // actors that may view
	editor         // actors that may make changes
	settler        // actors that may settle costs
)

// metBy reports whether an actor meets the need.
func (n need) metBy(a auth.Actor) bool {
	switch n {
	case open, guest:
		return true
	case viewer:
		return a.CanView()
	case editor:
		return a.CanEdit()
	case settler:
		return a.CanSettle()
	case undecided, owner:
	}
	return false
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
	if !s.unavailable && strings.HasPrefix(r.URL.Path, s.Path(api.Prefix+"/")) {
		return s.api()
	}
	return s.pages, nil
}

// newRouter registers routes.
func (s *server) newRouter(routes []route) (*router, error) {
	made := &router{http.NewServeMux(), map[string]route{}}
	for _, r := range routes {
		if r.need <= undecided || r.need > settler {
			return nil, fmt.Errorf("route %s does not state its need", r.pattern)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + s.Path(path)
		made.mux.HandleFunc(pattern, r.handle)
		made.known[pattern] = r
	}
	return made, nil
}

// dispatch finds a request's route and checks its need. A request without a route needs a
// viewer, so that others cannot find out which routes exist.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	router, err := s.routerOf(r)
	if err != nil {
		s.Log.Error("describe the API", "cause", err)
		s.Fail(w, r, page.Problem{Status: http.StatusInternalServerError})
		return
	}
	found, known, handler := router.find(r)
	need := found.need
	if !known {
		need = viewer
	}
	r.Body = http.MaxBytesReader(w, r.Body, max(found.maxBody, maxBody))
	if need == open {
		router.mux.ServeHTTP(w, r)
		return
	}
	if s.unavailable {
		s.Fail(w, r, page.Problem{Status: http.StatusServiceUnavailable})
		return
	}
	if need == owner {
		router.mux.ServeHTTP(w, r)
		return
	}
	s.withActor(w, r, func(w http.ResponseWriter, r *http.Request) {
		switch actor := auth.From(r.Context()); {
		case need.metBy(actor) && known:
			router.mux.ServeHTTP(w, r)
		case need.metBy(actor):
			s.failUnrouted(w, r, handler)
		case !actor.Known():
			s.askLogin(w, r)
		default:
			s.Fail(w, r, forbidden(actor))
		}
	})
}

func forbidden(a auth.Actor) page.Problem {
	if !a.CanView() {
		return page.Problem{
			Status: http.StatusForbidden, Heading: "This token may only settle reservations",
			Advice: "Use a token with scope read or write.",
		}
	}
	return page.Problem{
		Status:  http.StatusForbidden,
		Heading: "Editor role required",
		Advice:  "Ask an administrator for the editor role.",
	}
}

// withActor handles a request with its actor in the context: the token's on the API,
// otherwise the session's.
func (s *server) withActor(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	if s.hasBearer(r) {
		s.withToken(w, r, handle)
		return
	}
	s.withSession(w, r, func(w http.ResponseWriter, r *http.Request) {
		handle(w, r.WithContext(auth.With(r.Context(), s.sessionActor(r.Context()))))
	})
}

// failUnrouted answers with the status of the mux, 404 or 405, and an error page.
func (s *server) failUnrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &bufferedResponse{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		s.Fail(w, r, page.Problem{Status: http.StatusNotFound})
		return
	}
	w.Header().Set("Allow", probe.header.Get("Allow"))
	s.Fail(w, r, page.Problem{Status: http.StatusMethodNotAllowed})
}

// hasBearer reports whether the request has an Authorization header to the API. Other
// sites' pages cannot make a browser send one, so such a request needs no proof of its
// origin. Its cookies are ignored.
func (s *server) hasBearer(r *http.Request) bool {
	return s.IsAPI(r) && len(r.Header.Values("Authorization")) > 0
}

// withToken handles a request with its token's actor, or without an actor if the token is
// unknown.
func (s *server) withToken(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	r.Header.Del("Cookie")
	found, err := s.Tokens.Authenticate(r.Context(), bearerText(r))
	switch {
	case errors.Is(err, token.ErrUnknown):
		handle(w, r)
	case err != nil:
		s.FailStore(w, r, "authenticate token", err)
	default:
		handle(w, r.WithContext(auth.With(r.Context(), found.Actor())))
	}
}

// bearerText returns the token of the only Authorization header, or "" if there is none.
func bearerText(r *http.Request) string {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return ""
	}
	scheme, text, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return text
}
