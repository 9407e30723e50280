package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// routes returns all routes but the API's. See dispatch for requests without a route.
// Machine tokens are accepted below /api/ only, where errors are JSON.
func (s *server) routes() []auth.Route {
	return append(s.pageRoutes(), []auth.Route{
		{Pattern: "GET /healthz", Role: auth.Anybody, Handle: s.health},
		{Pattern: "GET /healthz/live", Role: auth.Anybody, Handle: s.alive},
		{Pattern: "GET /static/{file}", Role: auth.Anybody, Handle: s.static},
		{Pattern: "POST /theme", Role: auth.Anybody, Handle: s.saveTheme},
		{Pattern: "GET /login", Role: auth.Guest, Handle: s.showLogin},
		{Pattern: "POST /login", Role: auth.Guest, Handle: s.login},
		{Pattern: "GET /login/oidc", Role: auth.Guest, Handle: s.atProvider(s.startProviderLogin),
			Deadline: auth.Slow},
		{Pattern: "GET /login/oidc/callback", Role: auth.Guest, Handle: s.atProvider(s.finishProviderLogin),
			Deadline: auth.Slow},
		{Pattern: "GET /resume", Role: auth.Viewer, Handle: s.resume},
		{Pattern: "POST /logout", Role: auth.Viewer, Handle: s.logout},
		{Pattern: "POST /settings/sessions/end", Role: auth.Viewer, Handle: s.endSessions},
	}...)
}

// apiRoutes returns the routes of the API.
func (s *server) apiRoutes() []auth.Route {
	services := api.Services{
		Keys: s.Keys, Checker: s.Checker, Records: s.Records, Crossings: s.Crossings,
		Tokens: s.Tokens, Sessions: s.ownSessions, Log: s.Log, Proxies: s.Proxies,
	}
	if s.OwnerView {
		services.Owners = &app.Owners{Keys: s.Keys, Records: s.Records, Throttle: s.Owners}
	}
	return api.Routes(s.BasePath, services)
}

func (s *server) pageRoutes() []auth.Route {
	services := dashboard.Services{
		Keys: s.Keys, Checker: s.Checker, Records: s.Records, Sessions: s.ownSessions, Tokens: s.Tokens,
		StoreVersion: s.StoreVersion, Log: s.Log, Stage: s.Stage, Release: s.Release,
		ExampleURL: s.ExampleURL,
		Crossings:  s.Crossings, Proxies: s.Proxies,
	}
	if s.Provider != nil {
		services.ProviderHost = s.Provider.Host()
	}
	return dashboard.Routes(s.Renderer, services)
}

// router finds the route of a request.
type router struct {
	mux   *http.ServeMux
	known map[string]auth.Route // by the patterns registered with the mux
}

// find returns the route of a request and whether there is one, and the handler of mux.
func (r *router) find(q *http.Request) (found auth.Route, known bool, handler http.Handler) {
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

// newRouter registers routes. A route without a role stops the start.
func (s *server) newRouter(routes []auth.Route) (*router, error) {
	made := &router{http.NewServeMux(), map[string]auth.Route{}}
	for _, r := range routes {
		if r.Role <= auth.Nobody || r.Role > auth.Editor {
			return nil, fmt.Errorf("route %s has no role", r.Pattern)
		}
		method, path, _ := strings.Cut(r.Pattern, " ")
		r.Pattern = method + " " + s.Path(path)
		if r.Deadline == 0 {
			r.Deadline = auth.Short
			if method != http.MethodGet {
				r.Deadline = auth.Slow // an edit waits for the store of the log
			}
		}
		made.mux.HandleFunc(r.Pattern, s.serve(r))
		made.known[r.Pattern] = r
	}
	return made, nil
}

// serve ends the context of a route's requests at its deadline.
func (s *server) serve(route auth.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), route.Deadline)
		defer cancel()
		s.answer(w, r.WithContext(ctx), route.Handle)
	}
}

// answer runs a handler and answers its error.
func (s *server) answer(w http.ResponseWriter, r *http.Request, handle auth.Handler) {
	if err := handle(w, r); err != nil {
		s.Fail(w, r, err)
	}
}

// dispatch finds a request's route and checks its role. A request without a route needs a
// viewer, so that others cannot find out which routes exist.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithoutCancel(r.Context())) // see auth.Route
	w, r = s.withNotes(w, r)
	router, err := s.routerOf(r)
	if err != nil {
		s.Log.Error("describe the API", "cause", err)
		s.Fail(w, r, page.Problem{Status: http.StatusInternalServerError})
		return
	}
	found, known, handler := router.find(r)
	role := found.Role
	if !known {
		role = auth.Viewer
	}
	r.Body = http.MaxBytesReader(w, r.Body, max(found.MaxBody, maxBody))
	if role == auth.Anybody {
		router.mux.ServeHTTP(w, r)
		return
	}
	if s.unavailable {
		s.Fail(w, r, page.Problem{Status: http.StatusServiceUnavailable})
		return
	}
	if role == auth.Owner {
		router.mux.ServeHTTP(w, r)
		return
	}
	s.withActor(w, r, func(w http.ResponseWriter, r *http.Request) {
		switch actor := auth.From(r.Context()); {
		case actor.Meets(role) && known:
			router.mux.ServeHTTP(w, r)
		case actor.Meets(role):
			s.failUnrouted(w, r, handler)
		case !actor.Known():
			s.answer(w, r, s.askLogin)
		default:
			s.Fail(w, r, forbidden(actor))
		}
	})
}

func forbidden(a auth.Actor) page.Problem {
	if !a.CanView() {
		return page.Problem{
			Status: http.StatusForbidden, Heading: "This token may only settle calls",
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
	ctx, cancel := context.WithTimeout(r.Context(), auth.Short)
	defer cancel()
	found, err := s.Tokens.Authenticate(ctx, bearerText(r))
	switch {
	case errors.Is(err, token.ErrUnknown):
		handle(w, r)
	case err != nil:
		s.Fail(w, r, page.Failed("authenticate token", err))
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
