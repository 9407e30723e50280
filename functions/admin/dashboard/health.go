package dashboard

import (
	"context"
	"io"
	"net/http"
	"time"
)

const healthDeadline = 500 * time.Millisecond

// health answers whether the store does, in time. It says no more than that: anybody may ask.
func (d *dashboard) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthDeadline)
	defer cancel()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := d.Ready(ctx); err != nil {
		d.Log.Warn("health", "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "unavailable\n")
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}
