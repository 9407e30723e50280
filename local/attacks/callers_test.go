//go:build unix

package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// bySuite is the audit entry of changes that the suite writes directly to Valkey.
var bySuite = registry.Edit{By: audit.Actor{Kind: "system", Name: "attacks"}, Reason: "attacks"}

// wide is a plan whose limits no test reaches.
const wide = "wide"

// refusedAddress is on the list of refused addresses, so no key may call from it.
const refusedAddress = "192.0.2.66"

func (i *installation) savePolicy(ctx context.Context) error {
	set, err := i.store.Set(ctx)
	if err != nil {
		return err
	}
	plenty := []limiter.Limit{{Requests: 10_000_000, Window: time.Hour}}
	set.Plans = []policy.Plan{{Name: wide, Limits: plenty}}
	set.TokenPlan, set.AddressPlan = wide, wide
	set.Deny = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(refusedAddress), 32)}
	_, err = i.store.SaveSet(ctx, *set, bySuite)
	return err
}

// edit changes the policies. Tests add their own rules and leave those of other tests
// unchanged.
func (i *installation) edit(t testing.TB, change func(*policy.Set)) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-ups edit too
	set, err := i.store.Set(ctx)
	if err != nil {
		t.Fatal(err)
	}
	change(set)
	if _, err := i.store.SaveSet(ctx, *set, bySuite); err != nil {
		t.Fatal(err)
	}
}

// rules adds route rules to the policies.
func (i *installation) rules(t testing.TB, rules ...policy.Route) {
	t.Helper()
	i.edit(t, func(s *policy.Set) { s.Routes = append(s.Routes, rules...) })
}

func (i *installation) key(t testing.TB, plan string) (policy.Key, string) {
	t.Helper()
	n := policy.NewKey{Name: "customer", Env: "test", Plan: plan}
	k, secret, err := i.store.Create(t.Context(), n, bySuite)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret.Reveal()
}

// revoked returns a key that was valid before it was revoked.
func (i *installation) revoked(t testing.TB) string {
	t.Helper()
	k, secret := i.key(t, wide)
	if _, err := i.store.Revoke(t.Context(), k.ID, k.Version, bySuite); err != nil {
		t.Fatal(err)
	}
	return secret
}

// unknown returns a key that was never created. Its checksum is valid, since anybody can
// compute one.
func unknown(t testing.TB) string {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// session logs a user in and returns the value of the session's Cookie header.
func (i *installation) session(t testing.TB, name string) string {
	t.Helper()
	form := url.Values{"user": {name}, "password": {i.secrets[name]}}
	got := i.site.send(t, http.MethodPost, "/login", form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	for _, line := range got.header.Values("Set-Cookie") {
		cookie, _, _ := strings.Cut(line, ";")
		if got.status == http.StatusSeeOther && strings.HasPrefix(cookie, "__Host-tidegate=") {
			return cookie
		}
	}
	t.Fatalf("log in as %s: %d %.300s", name, got.status, got.body)
	return ""
}

// machine creates a machine token of a scope.
func (i *installation) machine(t testing.TB, scope string) string {
	t.Helper()
	var made struct{ Secret string }
	body := fmt.Sprintf(`{"name":"suite","scope":%q,"expires":%q}`, scope,
		time.Now().Add(time.Hour).Format(time.RFC3339))
	got := i.site.send(t, http.MethodPost, "/api/v1/tokens", body, i.page(t)...)
	if err := json.Unmarshal([]byte(got.body), &made); err != nil || made.Secret == "" {
		t.Fatalf("make a token: %d %.300s", got.status, got.body)
	}
	return made.Secret
}

// page returns the headers of a JSON request that the dashboard's own page sends for an
// editor.
func (i *installation) page(t testing.TB) []string {
	t.Helper()
	return []string{"Cookie", i.session(t, editorName), "Sec-Fetch-Site", "same-origin", "Content-Type",
		"application/json"}
}

// machineHeaders returns the headers of a JSON request with a machine token.
func machineHeaders(token string) []string {
	return []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
}
