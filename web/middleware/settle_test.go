package middleware

import (
	"net/http"
	"strings"
	"testing"
)

// A settlement succeeds through a server that throttles one attempt and breaks the
// connection of the next, which has settled.
func TestSettleThroughAServer(t *testing.T) {
	attempts, settled := 0, 0
	got, err := settleRequest(t, "tgr_x", func(w http.ResponseWriter, _ *http.Request) {
		switch attempts++; attempts {
		case 1:
			http.Error(w, `{"message":"Too Many Requests"}`, http.StatusTooManyRequests)
		case 2:
			settled++
			panic(http.ErrAbortHandler) // the response is lost
		default:
			http.Error(w, `{"detail":"settled already"}`, http.StatusConflict)
		}
	})
	if err != nil || got.Actual["cost"] != 7 || attempts != 3 || settled != 1 {
		t.Errorf("got %+v, %v after %d attempts, want an actual cost of 7 after 3", got, err, attempts)
	}
	unreachable := &Settler{URL: "http://127.0.0.1:1", Token: "machine"}
	if _, err := unreachable.Settle(t.Context(), "tgr_x", 1); err == nil ||
		!strings.Contains(err.Error(), "connect") {
		t.Errorf("unreachable server: got error %v, want one of the connection", err)
	}
}
