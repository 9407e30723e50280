package middleware

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A real server that fails by answers and by broken connections settles once in the end.
func TestSettleThroughAServer(t *testing.T) {
	asked, done := 0, 0
	got, err := settling(t, "tgr_x", func(w http.ResponseWriter, _ *http.Request) {
		switch asked++; asked {
		case 1:
			http.Error(w, `{"message":"Too Many Requests"}`, http.StatusTooManyRequests)
		case 2:
			done++
			panic(http.ErrAbortHandler) // settled, and the answer is lost
		default:
			http.Error(w, `{"detail":"settled already"}`, http.StatusConflict)
		}
	})
	if err != nil || got != (Settlement{Actual: 7}) || asked != 3 || done != 1 {
		t.Errorf("%+v, %v after %d attempts", got, err, asked)
	}
	unreachable := &Settler{URL: "http://127.0.0.1:1", Token: "machine"}
	if _, err := unreachable.Settle(t.Context(), "tgr_x", 1); err == nil ||
		!strings.Contains(err.Error(), "connect") {
		t.Error(fmt.Sprint(err))
	}
}
