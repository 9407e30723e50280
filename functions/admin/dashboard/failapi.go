package dashboard

import (
	"encoding/json"
	"net/http"
	"strings"
)

// failAPI answers with an error as RFC 9457 has it.
func (rd *renderer) failAPI(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	rd.writeJSON(w, p.status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(p.status), p.status, p.heading + ". " + p.advice})
}

func (rd *renderer) writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		rd.log.Error("encode answer", "cause", err)
		status, text = http.StatusInternalServerError, []byte("{}")
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails only when nobody listens any more
}

// isAPI tells requests that get JSON, whatever becomes of them.
func (rd *renderer) isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, rd.path("/api/"))
}
