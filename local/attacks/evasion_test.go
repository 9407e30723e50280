//go:build unix

package attacks

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// HEAD runs the handler of GET in most backends, so it falls under the rules of GET.
func TestAttackHead(t *testing.T) {
	a, i := attack(t, "HEAD instead of GET",
		"HEAD of a route whose GET is over its limit, 6 times on each API")
	i.rules(t, policy.Route{
		Name: "report", Pattern: route.Pattern{Method: "GET", Path: "/report"}, Cost: 50,
		PerKey: []limiter.Limit{{Requests: 50, Window: time.Minute}},
	})
	for name, c := range map[string]struct {
		target target
		denied int
	}{"REST API": {i.rest, http.StatusTooManyRequests}, "HTTP API": {i.http, http.StatusForbidden}} {
		t.Run(name, func(t *testing.T) {
			_, secret := i.key(t, wide)
			for call, want := range []int{http.StatusOK, c.denied} {
				if got := c.target.get(t, "/report", "x-api-key", secret); got.status != want {
					t.Fatalf("GET %d: %d, want %d", call+1, got.status, want)
				}
			}
			for range 6 {
				a.probe()
				got := c.target.send(t, http.MethodHead, "/report", "", "x-api-key", secret)
				if got.status != c.denied {
					t.Errorf("HEAD: %d, want %d", got.status, c.denied)
				}
			}
		})
	}
}

// A good key does not let a forged bearer token past the authorizer.
func TestAttackKeyBesideForgedBearer(t *testing.T) {
	a, i := attack(t, "a forged JWT beside a good key",
		"a good API key with an unsigned, a foreign, an expired and a broken bearer, with the sources "+
			"key and JWT in both orders, on both APIs")
	k := issuerKeys()[2]
	_, key := i.key(t, wide)
	good := k.token(nil)
	foreign := issuerKey{"ed", issuerKeys()[1].algorithm, issuerKeys()[1].key}.token(nil)
	forged := map[string]string{
		"unsigned": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "foreign": foreign,
		"expired": k.token(map[string]any{"exp": 1}), "broken": good[:len(good)-4] + "AAAA",
	}
	for _, sources := range []string{"key,jwt", "jwt,key"} {
		rest, http2 := i.tokens(t, map[string]string{"IDENTITY_SOURCES": sources, "JWT_JWKS": keySet(k)})
		for api, target := range map[string]target{"REST API": rest, "HTTP API": http2} {
			for name, bearer := range forged {
				a.probe()
				got := target.get(t, "/", "x-api-key", key, "Authorization", "Bearer "+bearer)
				if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
					t.Errorf("%s of %s, %s: %d %.300s", api, sources, name, got.status, got.body)
				}
			}
		}
	}
}

// RESERVATION_LEASE takes effect: a reservation with a lease of one second cannot be
// settled after that second.
func TestAttackOldReservation(t *testing.T) {
	a, i := attack(t, "a reservation kept for later",
		"a reservation settled after its `RESERVATION_LEASE` of 1s, and one of the usual lease")
	i.rules(t, policy.Route{
		Name: "leased", Pattern: route.Pattern{Path: "/leased"}, Cost: 40, Settle: true,
		PerKey: []limiter.Limit{{Requests: 1000, Window: time.Hour}},
	})
	short, _, err := i.apis(1, map[string]string{"RESERVATION_LEASE": "1s"})
	if err != nil {
		t.Fatal(err)
	}
	token := i.machine(t, "settle")
	_, secret := i.key(t, wide)
	brief := short.get(t, "/leased", "x-api-key", secret).reservation(t)
	usual := i.rest.get(t, "/leased", "x-api-key", secret).reservation(t)
	<-time.After(1100 * time.Millisecond) // the lease itself
	a.probe()
	if got, _ := i.settle(t, token, brief, 0); got.status != http.StatusGone {
		t.Errorf("after its lease: %d %s", got.status, got.body)
	}
	a.probe()
	if got, _ := i.settle(t, token, usual, 0); got.status != http.StatusOK {
		t.Errorf("within the usual lease: %d %s", got.status, got.body)
	}
}
