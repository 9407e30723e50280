package server

import (
	"context"
	"io"
	"net/http"
	"time"

	"tidegate/functions/admin/dashboard/page"
)

const healthDeadline = 500 * time.Millisecond

// health answers whether Valkey responds within healthDeadline. It reveals nothing else,
// since anybody may ask.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthDeadline)
	defer cancel()
	status, word := http.StatusOK, "ready"
	if err := s.Ready(ctx); err != nil {
		s.Log.Warn("health", "cause", err)
		status, word = http.StatusServiceUnavailable, "away"
		w.Header().Set("Retry-After", page.StoreRetryAfter)
	}
	writeText(w, status, "alive\nstore "+word+"\n")
}

// alive answers that this function runs, whatever the state of Valkey.
func (s *server) alive(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "alive\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // fails only after the client disconnected
}
