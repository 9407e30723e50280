//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// A stolen settle token takes no more from a shared limit than the rule's bound.
func TestAttackSettleToken(t *testing.T) {
	a, i := attack(t, "a leaked settle token",
		"reservations of 40 settled with up to 1,000,000,000, at a limit of 100,000 of all callers")
	all := limiter.Limit{Requests: 100_000, Window: time.Hour}
	i.rules(t, policy.Route{
		Name: "settling", Pattern: route.Pattern{Path: "/settling"}, Cost: 40, Settle: true,
		Shared: []limiter.Limit{all},
	})
	token := i.machineToken(t, "settle")
	_, victim := i.key(t, wide)
	for _, actual := range []int64{401, 4_000, 100_000, 1_000_000_000} {
		a.probe()
		_, secret := i.key(t, wide)
		before := i.rest.get(t, "/settling", "x-api-key", victim).remaining(t, "route-all")
		taken := i.rest.get(t, "/settling", "x-api-key", secret).reservation(t)
		got, s := i.settle(t, token, taken, actual)
		after := i.rest.get(t, "/settling", "x-api-key", victim)
		if after.status != http.StatusOK {
			t.Fatalf("settled with %d (%d %s): others get %d", actual, got.status, got.body, after.status)
		}
		const bound = 400 // ten times the cost
		if s.AboveMax != actual-bound {
			t.Errorf("settled with %d: the answer says that %d are above the bound", actual, s.AboveMax)
		}
		const most = bound + 40 // and the victim's own call
		if left := after.remaining(t, "route-all"); left < before-most {
			t.Errorf("settled with %d (%d %+v): others had %d left and have %d", actual, got.status,
				s, before, left)
		}
	}
}

// A write token creates no other token, and sets no field that the server sets.
func TestAttackWriteToken(t *testing.T) {
	a, i := attack(t, "a leaked write token",
		"making tokens of each scope; creating keys with an id, a secret, a status, a version, a kind "+
			"of the attacker's choice")
	header := machineHeaders(i.machineToken(t, "write"))
	before := i.newestAuditID(t)
	expires := time.Now().Add(time.Hour).Format(time.RFC3339)
	for _, scope := range []string{"read", "write", "settle"} {
		a.probe()
		body := fmt.Sprintf(`{"name":"another","scope":%q,"expires":%q}`, scope, expires)
		if got := i.site.send(t, http.MethodPost, "/api/v1/tokens", body,
			header...); got.status != http.StatusForbidden {
			t.Errorf("a token of scope %s: %d %.300s", scope, got.status, got.body)
		}
	}
	for _, field := range []string{
		`"id":"AAAAAAAAAAAA"`, `"secret":"x"`, `"status":"active"`, `"version":7`, `"kind":"token"`,
		`"graceUntil":"2999-01-01T00:00:00Z"`,
	} {
		a.probe()
		body := `{"name":"customer","plan":"wide",` + field + `}`
		if got := i.site.send(t, http.MethodPost, "/api/v1/keys", body,
			header...); got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %.300s", field, got.status, got.body)
		}
	}
	i.wantUnchanged(t, before)
}

// ownChanges are operations that a viewer may use: they change at most the viewer's own
// session and theme.
var ownChanges = []string{
	"POST /login", "POST /logout", "POST /theme", "POST /settings/sessions/end",
	"POST /resume", "POST /search",
	"POST /api/v1/simulate",
	"POST /api/v1/simulate/lab",
}

// A viewer changes nothing.
func TestAttackViewer(t *testing.T) {
	a, i := attack(t, "a viewer's session",
		"each route of pages and of the JSON API that changes something, as the dashboard's own page "+
			"would ask")
	k, _ := i.key(t, wide)
	routes := changing(append(pages(t, k.ID), i.operations(t, k.ID)...))
	cookie := i.session(t, viewerName)
	before := i.newestAuditID(t)
	for _, e := range routes {
		if slices.Contains(ownChanges, e.pattern) {
			continue
		}
		a.probe()
		got := i.site.send(t, e.method, e.path,
			"version=1&reason=x&action=save&name=x&plan=wide&env=x&confirm=1",
			"Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Content-Type",
			"application/x-www-form-urlencoded")
		if got.status != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", e.pattern, got.status)
		}
	}
	i.wantUnchanged(t, before)
}

// A forged key with a customer's public id takes nothing from that customer's limit and
// causes no ban. Its answer does not show whether the customer is denied.
func TestAttackKnownID(t *testing.T) {
	a, i := attack(t, "a key with another's id",
		"keys with the public id of a customer and a good checksum, before and after the customer is "+
			"over its limit, while denials lead to a ban")
	i.rules(t, policy.Route{
		Name: "known id", Pattern: route.Pattern{Path: "/known-id"}, Cost: 1,
		PerKey: []limiter.Limit{{Requests: 3, Window: time.Hour}},
	})
	hour := policy.Duration(time.Hour)
	i.edit(t, func(s *policy.Set) {
		s.Bans = &policy.Bans{Denials: 100, Window: hour, Base: hour, Cap: hour}
	})
	t.Cleanup(func() { i.edit(t, func(s *policy.Set) { s.Bans = nil }) })
	rest, _, err := i.apis(1, map[string]string{"DENY_CACHE": "1m"})
	if err != nil {
		t.Fatal(err)
	}
	k, victim := i.key(t, wide)
	forged := func(calls int) {
		for range calls {
			a.probe()
			secret, err := apikey.Renew("test", k.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := rest.get(t, "/known-id", "x-api-key",
				secret.Reveal()); got.status != http.StatusUnauthorized {
				t.Errorf("a forged key: %d", got.status)
			}
		}
	}
	forged(150)
	for n, want := range []int64{2, 1, 0} {
		got := rest.get(t, "/known-id", "x-api-key", victim)
		if got.status != http.StatusOK || got.remaining(t, "route ") != want {
			t.Errorf("call %d of the customer: %d, %s", n+1, got.status, got.header.Get("RateLimit"))
		}
	}
	if got := rest.get(t, "/known-id", "x-api-key", victim); got.status != http.StatusTooManyRequests {
		t.Fatalf("the customer over its limit: %d", got.status)
	}
	forged(20)
}
