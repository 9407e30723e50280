package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CORS headers that an outer handler has set are unchanged.
func TestCORSHeadersStay(t *testing.T) {
	m := Middleware{Source: sourceOf(map[string]any{"denied": true})}
	w := httptest.NewRecorder()
	w.Header().Set("Access-Control-Allow-Origin", "https://c.example")
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders", http.NoBody))
	if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "https://c.example" ||
		h["Access-Control-Expose-Headers"] != nil {
		t.Error(h)
	}
}

// sourceOf returns a Source of one context.
func sourceOf(context map[string]any) Source {
	return func(*http.Request) map[string]any { return context }
}

// settleRequest serves a request whose client has disconnected, with a handler that
// settles a cost of 7.
func settleRequest(t *testing.T, settlement string, api http.HandlerFunc) (Settlement, error) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	values := map[string]any{"denied": false, "settlement": settlement}
	m := Middleware{Source: sourceOf(values),
		Settler: &Settler{URL: server.URL + "/prod/", Token: "machine", Client: server.Client()}}
	var settled Settlement
	var err error
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(canceled)
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		settled, err = Settle(r.Context(), 7)
	})).ServeHTTP(httptest.NewRecorder(), r)
	return settled, err
}

// A handler settles even after its client has disconnected.
func TestSettle(t *testing.T) {
	got, err := settleRequest(t, "tgr_x", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/prod/api/v1/settlements" ||
			r.Header.Get("Authorization") != "Bearer machine" ||
			string(body) != `{"cost":7,"settlement":"tgr_x"}` {
			t.Errorf("%s %s %s", r.URL, r.Header, body)
		}
		_, _ = io.WriteString(w,
			`{"reserved":9,"actual":7,"owed":2,"partial":true}`)
	})
	want := Settlement{Reserved: Costs{"cost": 9}, Actual: Costs{"cost": 7}, Owed: 2, Partial: true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestSettleWithoutASettlement(t *testing.T) {
	got, err := settleRequest(t, "", func(http.ResponseWriter, *http.Request) {
		t.Error("Settle called the API without a settlement")
	})
	if err != nil || !reflect.ValueOf(got).IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Settle(t.Context(), 1); !errors.Is(err, ErrNoSettler) {
		t.Errorf("outside of a request: got %v, want ErrNoSettler", err)
	}
}
