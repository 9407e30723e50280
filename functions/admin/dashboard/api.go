package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/token"
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

// apiMe tells a caller who it is taken for.
func (d *dashboard) apiMe(w http.ResponseWriter, r *http.Request) {
	a := access.From(r.Context())
	d.writeJSON(w, http.StatusOK, struct {
		ID   string      `json:"id"`
		Name string      `json:"name"`
		Kind access.Kind `json:"kind"`
		Role string      `json:"role"`
	}{a.ID, a.Name, a.Kind, a.Role.String()})
}

// apiToken is a machine token as the API shows it.
type apiToken struct {
	ID       string      `json:"id"`
	Name     string      `json:"name"`
	Scope    token.Scope `json:"scope"`
	By       string      `json:"createdBy"`
	Created  time.Time   `json:"created"`
	Expires  time.Time   `json:"expires"`
	LastUsed *time.Time  `json:"lastUsed"` // to the minute; null if never
}

func (d *dashboard) apiTokens(w http.ResponseWriter, r *http.Request) {
	tokens, err := d.Tokens.List(r.Context())
	if err != nil {
		d.failStore(w, r, "list tokens", err)
		return
	}
	items := make([]apiToken, len(tokens))
	for i, t := range tokens {
		items[i] = apiToken{ID: t.ID, Name: t.Name, Scope: t.Scope, By: t.By, Created: t.Created, Expires: t.Expires}
		if !t.Used.IsZero() {
			items[i].LastUsed = &t.Used
		}
	}
	d.writeJSON(w, http.StatusOK, map[string]any{"items": items})
}

// apiRevokeToken lets a machine revoke a token that leaked, its own too. Only people create tokens: one that leaked must not beget another.
func (d *dashboard) apiRevokeToken(w http.ResponseWriter, r *http.Request) {
	err := d.Tokens.Revoke(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, token.ErrNotFound):
		d.fail(w, r, problem{status: http.StatusNotFound, heading: "No such token", advice: "It may have been revoked already."})
	case err != nil:
		d.failStore(w, r, "revoke token", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
