package page

import (
	"bytes"
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
