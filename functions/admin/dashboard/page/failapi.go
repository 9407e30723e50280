package page

import (
	"encoding/json"
	"net/http"
	"strings"
)

// failAPI answers with an error as RFC 9457 has it.
func (rd *Renderer) failAPI(w http.ResponseWriter, p Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	rd.writeJSON(w, p.Status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Heading + ". " + p.Advice})
}

func (rd *Renderer) writeJSON(w http.ResponseWriter, status int, value any) {
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

// IsAPI reports requests that get JSON, whatever becomes of them.
func (rd *Renderer) IsAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, rd.Path("/api/"))
}
