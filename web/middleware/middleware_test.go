package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
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

// What can never be sent is an error at once, which names the field and not the token. White
// space around the token is no part of it.
func TestSettlerRefusesWhatCannotBeSent(t *testing.T) {
	attempts := 0
	api := transport(func(r *http.Request) (*http.Response, error) {
		attempts++
		to, with := r.URL.String(), r.Header.Get("Authorization")
		if to != "https://a.example/api/v1/settlements" || with != "Bearer tga_secret" {
			t.Error(to, with)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})
	for want, c := range map[string]struct {
		url, token string
		cost       int64
	}{
		"":            {" https://a.example/\n", "tga_secret\n", 0},
		"cost is -1":  {"https://a.example", "tga_secret", -1},
		"Token of":    {"https://a.example", "tga_\nsecret", 1},
		"Token of S":  {"https://a.example", " ", 1},
		"URL of":      {"a.example", "tga_secret", 1},
		"URL of Sett": {"https://a.example\x00", "tga_secret", 1},
	} {
		s := &Settler{URL: c.url, Token: c.token, Client: &http.Client{Transport: api}}
		_, err := s.Settle(t.Context(), "tgr_x", c.cost)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	if attempts != 1 {
		t.Errorf("got %d attempts, want 1", attempts)
	}
}

// A request without a caller gets the challenge.
func TestChallenge(t *testing.T) {
	for challenge, want := range map[string]string{"": "Bearer", `Bearer a="b"`: `Bearer a="b"`} {
		a := &Asking{Caller: func(*http.Request) Call { return Call{} }, Challenge: challenge}
		w := httptest.NewRecorder()
		a.Wrap(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || got != want {
			t.Errorf("got %d with %q, want 401 with %q", w.Code, got, want)
		}
	}
}

// Numbers of a Source of one's own count, whatever their type.
func TestNumbersOfASource(t *testing.T) {
	d, err := parseDecision(map[string]any{"denied": false, "limit": 10, "remaining": int64(9), "reset": 7.0,
		"policyVersion": "3"})
	if err != nil || d.Limit != 10 || d.Remaining != 9 || d.Reset != 7 || d.PolicyVersion != 3 {
		t.Errorf("got %+v, %v", d, err)
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
