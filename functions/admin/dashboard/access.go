package dashboard

import (
	"net/http"
	"net/url"

	"tidegate/functions/admin/access"
)

// dispatch looks up a request's route and what it needs. Without a route it needs a viewer: strangers learn nothing of what exists.
func (d *dashboard) dispatch(w http.ResponseWriter, r *http.Request) {
	handler, pattern := d.mux.Handler(r)
	found, known := d.known[pattern]
	need := found.need
	if !known {
		need = viewer
	}
	r.Body = http.MaxBytesReader(w, r.Body, max(found.maxBody, maxBody))
	if need == open {
		d.mux.ServeHTTP(w, r)
		return
	}
	if d.away {
		d.fail(w, r, problem{status: http.StatusServiceUnavailable})
		return
	}
	d.identified(w, r, func(w http.ResponseWriter, r *http.Request) {
		switch actor := access.From(r.Context()); {
		case need.metBy(actor) && known:
			d.mux.ServeHTTP(w, r)
		case need.metBy(actor):
			d.unrouted(w, r, handler)
		case !actor.Known():
			d.askLogin(w, r)
		default:
			d.fail(w, r, forbidden(actor))
		}
	})
}

func forbidden(a access.Actor) problem {
	if !a.CanView() {
		return problem{
			status: http.StatusForbidden, heading: "This token may settle reservations, and nothing else", advice: "Use one of scope read or write.",
		}
	}
	return problem{
		status:  http.StatusForbidden,
		heading: "You may look, but not change",
		advice:  "This needs the editor role. Ask whoever runs this dashboard.",
	}
}

// identified answers a request with its actor in the context: the bearer of a token on the API, else whoever the session belongs to.
func (d *dashboard) identified(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	if d.bearer(r) {
		d.withToken(w, r, handle)
		return
	}
	d.withSession(w, r, func(w http.ResponseWriter, r *http.Request) {
		handle(w, r.WithContext(access.With(r.Context(), d.sessionActor(r.Context()))))
	})
}

// canEdit reports whether a page should offer changes.
func canEdit(r *http.Request) bool { return access.From(r.Context()).CanEdit() }

// askLogin sends the browser to the login, and afterwards back to where it wanted to go. A live refresh gets the order to take the whole page there,
// a machine the word that it needs a token.
func (d *dashboard) askLogin(w http.ResponseWriter, r *http.Request) {
	if d.isAPI(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidegate"`)
		d.fail(w, r, problem{status: http.StatusUnauthorized})
		return
	}
	back := d.path("/")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		back = r.URL.RequestURI()
	}
	login := d.path("/login") + "?next=" + url.QueryEscape(back)
	if isRefresh(r) {
		w.Header().Set("HX-Redirect", login)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, login, http.StatusSeeOther)
}

// unrouted answers what the mux would, 404 or 405, as one of our pages.
func (d *dashboard) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &answer{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		d.fail(w, r, problem{status: http.StatusNotFound})
		return
	}
	w.Header().Set("Allow", probe.header.Get("Allow"))
	d.fail(w, r, problem{status: http.StatusMethodNotAllowed})
}
