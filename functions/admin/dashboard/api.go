package dashboard

import (
	"encoding/json"
	"net/http"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/api"
)

// failAPI answers with an error as RFC 9457 has it.
func (d *dashboard) failAPI(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	d.writeJSON(w, p.status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(p.status), p.status, p.heading + ". " + p.advice})
}

func (d *dashboard) writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		d.Log.Error("encode answer", "error", err)
		status, text = http.StatusInternalServerError, []byte("{}")
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails only when nobody listens any more
}

// apiRoutes are what the API answers.
func (d *dashboard) apiRoutes() []route {
	if d.away {
		return nil // every request needs the store, and is told so
	}
	var routes []route
	for _, r := range api.Routes(d.BasePath, api.Services{Keys: d.Keys, Checker: d.Checker, Usage: d.Usage, Tokens: d.Tokens, Log: d.Log}) {
		routes = append(routes, route{pattern: r.Pattern, need: needOf(r.Role), handle: r.Handle, maxBody: r.MaxBody})
	}
	return routes
}

func needOf(r access.Role) need {
	switch r {
	case access.Settler:
		return settler
	case access.Viewer:
		return viewer
	case access.Editor:
		return editor
	case access.Nobody:
	}
	return undecided
}
