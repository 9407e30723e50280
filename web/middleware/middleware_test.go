package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// CORS headers of an earlier handler stay.
func TestCORSHeadersStay(t *testing.T) {
	m := Middleware{Source: as(map[string]any{"denied": true})}
	w := httptest.NewRecorder()
	w.Header().Set("Access-Control-Allow-Origin", "https://c.example")
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders", http.NoBody))
	if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "https://c.example" ||
		h["Access-Control-Expose-Headers"] != nil {
		t.Error(h)
	}
}

func as(context map[string]any) Source { return func(*http.Request) map[string]any { return context } }

// settling serves one request with a handler that settles.
func settling(t *testing.T, reservation string, api http.HandlerFunc) (Settlement, error) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	values := map[string]any{"denied": false, "reservation": reservation}
	m := Middleware{Source: as(values),
		Settler: &Settler{URL: server.URL + "/prod/", Token: "machine", Client: server.Client()}}
	var settled Settlement
	var err error
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(gone)
	m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		settled, err = Settle(r.Context(), 7)
	})).ServeHTTP(httptest.NewRecorder(), r)
	return settled, err
}

// A handler settles even when its client has gone.
func TestSettle(t *testing.T) {
	got, err := settling(t, "tgr_x", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/prod/api/v1/reservations/settle" ||
			r.Header.Get("Authorization") != "Bearer machine" ||
			string(body) != `{"cost":7,"reservation":"tgr_x"}` {
			t.Errorf("%s %s %s", r.URL, r.Header, body)
		}
		_, _ = io.WriteString(w,
			`{"reserved":9,"actual":7,"short":1,"settleMax":90,"aboveMax":3,"partial":true}`)
	})
	if err != nil || got != (Settlement{Reserved: 9, Actual: 7, Short: 1, SettleMax: 90, AboveMax: 3,
		Partial: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSettleWithoutAReservation(t *testing.T) {
	got, err := settling(t, "", func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	if err != nil || got != (Settlement{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Settle(t.Context(), 1); !errors.Is(err, ErrNoSettler) {
		t.Errorf("outside of a request: %v", err)
	}
}
