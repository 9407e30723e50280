//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A misbehaving issuer lets no caller in, and unknown key ids cause no more than one
// fetch a minute.
func TestAttackKeySets(t *testing.T) {
	a, i := attack(t, "key sets of JWT issuers",
		"a redirect, more than 64 kB, a set that never ends, a 500, and tokens with 2,000 unknown key "+
			"ids against the number of fetches")
	good := issuerKeys()[2]
	gone := make(chan struct{})
	t.Cleanup(func() { close(gone) })
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"oversized": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, keySet(good), strings.Repeat(" ", 1<<20))
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		},
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			a.probe()
			mux := http.NewServeMux()
			mux.HandleFunc("/keys", answer)
			mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, keySet(good))
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.CloseClientConnections)
			rest, _ := i.tokens(t, map[string]string{"JWT_JWKS_URL": server.URL + "/keys"})
			got := rest.get(t, "/", "Authorization", "Bearer "+good.token(nil))
			if got.status < 400 {
				t.Errorf("status %d, want at least 400", got.status)
			}
		})
	}
	t.Run("unknown key ids", func(t *testing.T) { a.unknownKeyIDs(t, i, good) })
}

// unknownKeyIDs counts how often the issuer is asked for its keys while 2,000 tokens name
// keys that it does not have.
func (a *attempt) unknownKeyIDs(t *testing.T, i *installation, good issuerKey) {
	t.Helper()
	var fetches atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		_, _ = fmt.Fprint(w, keySet(good))
	}))
	t.Cleanup(server.Close)
	rest, _ := i.tokens(t, map[string]string{"JWT_JWKS_URL": server.URL})
	if got := rest.get(t, "/", "Authorization", "Bearer "+good.token(nil)); got.status != http.StatusOK {
		t.Fatalf("a good token: %d %s", got.status, got.body)
	}
	before := fetches.Load()
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Go(func() {
			for n := range 500 {
				a.probe()
				bad := issuerKey{fmt.Sprintf("%d-%d", thread, n), good.algorithm, good.key}
				if got := rest.get(t, "/", "Authorization",
					"Bearer "+bad.token(nil)); got.status != http.StatusUnauthorized {
					t.Errorf("%d, want 401", got.status)
				}
			}
		})
	}
	threads.Wait()
	// One fetch a minute; a slow machine may take several minutes.
	if n := fetches.Load() - before; n > 5 {
		t.Errorf("the issuer was asked %d times for 2,000 unknown keys", n)
	}
}
