package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alexedwards/scs/v2"

	"tidegate/internal/policy"
)

// A store that exceeds the deadline of the request is reported as unavailable, although
// the request's context has ended.
func TestStoreTooSlow(t *testing.T) {
	d := New("", "", slog.New(slog.DiscardHandler), scs.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	d.Fail(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/audit", nil),
		Failed("read audit", ctx.Err()))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(
		w.Body.String(), "Valkey is unavailable",
	) {
		t.Errorf("got status %d, want 503 and that Valkey is unavailable: %s", w.Code, w.Body)
	}
}

// The log names the operation that failed. A problem is answered as it is, whatever wraps
// it, and not logged.
func TestFail(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		logged string
	}{
		{Failed("read calls", errors.New("refused")), http.StatusServiceUnavailable, "read calls"},
		{errors.New("refused"), http.StatusServiceUnavailable, "answer request"},
		{Failed("get key", policy.ErrNotFound), http.StatusNotFound, ""},
		{Failed("read form", Problem{Status: http.StatusBadRequest}), http.StatusBadRequest, ""},
		{fmt.Errorf("read: %w", Problem{Status: http.StatusGone, Heading: "Gone"}), http.StatusGone, ""},
	} {
		var log bytes.Buffer
		d := New("", "", slog.New(slog.NewTextHandler(&log, nil)), scs.New())
		w := httptest.NewRecorder()
		d.Fail(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/audit", nil), c.err)
		if w.Code != c.status || strings.Contains(w.Body.String(), "refused") ||
			(log.Len() > 0) != (c.logged != "") || !strings.Contains(log.String(), c.logged) {
			t.Errorf("%v: got status %d and log %q, want %d and %q", c.err, w.Code, &log, c.status, c.logged)
		}
	}
}
