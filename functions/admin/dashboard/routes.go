package dashboard

import (
	"net/http"
	"strings"
)

// role is what a request needs to be answered. Each includes the ones before it.
type role int

const (
	open   role = iota // anybody; no session is looked up
	guest              // anybody; a session is looked up
	viewer             // whoever is logged in
	editor             // whoever may change limits
)

type route struct {
	pattern string // method and path, as in http.ServeMux, without the base path
	role    role
	handle  http.HandlerFunc
}

// routes is everything that the dashboard serves. What is not listed needs a session to be refused politely; see authorize.
func (d *dashboard) routes() []route {
	return []route{
		{"GET /healthz", open, d.health},
		{"GET /static/{file}", open, d.static},
		{"POST /theme", open, d.saveTheme},
		{"GET /login", guest, d.showLogin},
		{"POST /login", guest, d.login},
		{"POST /logout", viewer, d.logout},
		{"GET /{$}", viewer, d.home},
		{"GET /simulate", viewer, d.showSimulation},
		{"GET /simulate/calls", viewer, d.showCalls},
		{"GET /keys", viewer, d.showKeys},
		{"GET /keys/{id}", viewer, d.showKey},
		{"GET /keys/{id}/limits", editor, d.showLimits},
		{"POST /keys/{id}/limits", editor, d.saveLimits},
	}
}

func (d *dashboard) newMux() (*http.ServeMux, map[string]role) {
	mux, roles := http.NewServeMux(), map[string]role{}
	for _, r := range d.routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		pattern := method + " " + d.path(path)
		mux.HandleFunc(pattern, r.handle)
		roles[pattern] = r.role
	}
	return mux, roles
}

func (d *dashboard) home(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, d.path("/keys"), http.StatusSeeOther)
}
