package server

import (
	"net/http"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/page"
)

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
	if s.away {
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
			Advice: "Use one of scope read or write.",
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

// failUnrouted answers as the mux would, 404 or 405, with one of our pages.
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
