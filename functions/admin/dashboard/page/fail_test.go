package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alexedwards/scs/v2"

	"tidegate/web/static"
)

// A store that exceeds the deadline of the request is reported as unavailable, although
// the request's context has ended.
func TestStoreTooSlow(t *testing.T) {
	d := New("", "", static.Bundle{}, slog.New(slog.DiscardHandler), scs.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	d.FailStore(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/audit", nil),
		"read audit", ctx.Err())
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(
		w.Body.String(), "Valkey is unavailable",
	) {
		t.Errorf("got status %d, want 503 and that Valkey is unavailable: %s", w.Code, w.Body)
	}
}
