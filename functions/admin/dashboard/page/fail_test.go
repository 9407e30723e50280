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

// A store that takes longer than a request may wait gets a page that says so, like one
// that is unavailable.
func TestStoreTooSlow(t *testing.T) {
	d := New("", "", static.Bundle{}, slog.New(slog.DiscardHandler), scs.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	d.FailStore(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/audit", nil),
		"read audit", ctx.Err())
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(
		w.Body.String(), "Valkey is not responding",
	) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}
