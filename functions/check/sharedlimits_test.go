package main

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// sharedState matches the names of Valkey keys with counts of groups, addresses and all
// callers, and of values of a parameter.
var sharedState = regexp.MustCompile(`tg:\{[^}]*\}:(?:all-|group-|ip-)[^:" ]*:s[^:" ]*`)

const (
	callerAddress  = "192.0.2.1"
	refusedAddress = "198.51.100.7"
	deniedAddress  = "203.0.113.7"
)

// deniedCallers are callers that may not call, with the address that they call from.
var deniedCallers = map[string]struct {
	address string
	secret  func(*testing.T, *function) apikey.Secret
}{
	"unknown": {callerAddress, func(*testing.T, *function) apikey.Secret {
		secret, _ := apikey.Generate("test") // cannot fail for a valid environment
		return secret
	}},
	"revoked": {callerAddress, changedKey(func(k *policy.Key) { k.Status = policy.Revoked })},
	"expired": {callerAddress, changedKey(func(k *policy.Key) {
		k.Expires = time.Now().Add(-time.Second)
	})},
	"banned": {callerAddress, changedKey(func(k *policy.Key) {
		k.Banned = time.Now().Add(time.Hour)
	})},
	"over its limit": {callerAddress, func(t *testing.T, f *function) apikey.Secret {
		return f.usedKey(t, 1)
	}},
	"refused address": {refusedAddress, func(t *testing.T, f *function) apikey.Secret {
		f.edit(t, func(s *policy.Set) {
			s.Allow = []netip.Prefix{netip.MustParsePrefix(callerAddress + "/32")}
		})
		return f.key(t, "pro")
	}},
	"denied address": {deniedAddress, func(t *testing.T, f *function) apikey.Secret {
		f.edit(t, func(s *policy.Set) {
			s.Deny = []netip.Prefix{netip.MustParsePrefix(deniedAddress + "/32")}
		})
		return f.key(t, "pro")
	}},
}

// changedKey returns a function that creates a key and changes it before its first call.
func changedKey(change func(*policy.Key)) func(*testing.T, *function) apikey.Secret {
	return func(t *testing.T, f *function) apikey.Secret {
		t.Helper()
		secret := f.key(t, "free")
		_, err := registrytest.Update(t.Context(), f.set, secret.ID(), "key.edit", tester, change)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
}

// edit changes the policy set and saves it.
func (f *function) edit(t *testing.T, change func(*policy.Set)) {
	t.Helper()
	registrytest.Save(t, f.set, tester, change)
}

// usedKey creates a key whose plan allows one call, and makes calls with it.
func (f *function) usedKey(t *testing.T, calls int) apikey.Secret {
	t.Helper()
	secret := f.key(t, "free")
	for range calls {
		if _, err := f.Check(t.Context(), callFrom(secret, callerAddress)); err != nil {
			t.Fatal(err)
		}
	}
	return secret
}

func callFrom(secret apikey.Secret, address string) enforce.Call {
	from := netip.MustParseAddr(address)
	return enforce.Call{
		Kind: policy.APIKey, Subject: secret.ID(), Secret: secret, Address: from,
		Network: netip.PrefixFrom(from, 32), Route: route.Call{Method: "GET", Path: "/items/7"},
	}
}

// For a caller that may not call, the function runs no command on the counts of shared
// limits, and does not change them.
func TestSharedLimitsOfTheFunction(t *testing.T) {
	for name, caller := range deniedCallers {
		t.Run(name, func(t *testing.T) {
			f := newFunction(t,
				policy.Plan{Name: "free", Limits: registrytest.Limits("1 per hour",
					"500 per hour, together")},
				policy.Plan{Name: "pro", Limits: registrytest.Limits("1,000 per hour",
					"500 per hour, each group",
					"500 per hour, together")})
			f.edit(t, func(s *policy.Set) {
				s.Routes = []limits.Route{registrytest.Route("items", 1, "/items/{item}")}
				s.Limits = registrytest.Limits("500 per hour, together", "500 per hour, on items, together",
					"500 per hour, each address", "500 per hour, on items, each address",
					"500 per hour, on items, each {item}")
			})
			f.group = "acme"
			legitimate := callFrom(f.key(t, "pro"), callerAddress)
			for range 5 {
				if c, err := f.Check(t.Context(), legitimate); err != nil || !c.Allowed {
					t.Fatalf("%+v, %v", c, err)
				}
			}
			denied := callFrom(caller.secret(t, f), caller.address)
			if c, err := f.Check(t.Context(), legitimate); err != nil || !c.Allowed {
				t.Fatalf("%+v, %v", c, err)
			}
			before := f.sharedStates(t)
			if kinds := strings.Count(before, "\n"); kinds < 7 {
				t.Fatalf("got %d counts of shared limits, want 7 of the caller that may call:\n%s", kinds,
					before)
			}
			monitor := valkeytest.StartMonitor(t, f.checker.config.ValkeyURL)
			for range 4 {
				c, err := f.Check(t.Context(), denied)
				if c.Allowed || err != nil && !errors.Is(err, policy.ErrUnknownKey) &&
					!errors.Is(err, policy.ErrRefused) {
					t.Fatalf("%+v, %v; want a refusal", c, err)
				}
			}
			for _, command := range monitor.Commands() {
				if sharedState.MatchString(command) {
					t.Errorf("the server ran %s", command)
				}
			}
			if after := f.sharedStates(t); after != before {
				t.Errorf("the counts of shared limits changed from %q to %q", before, after)
			}
		})
	}
}

// sharedStates returns the names and values of all Valkey keys of shared limits.
func (f *function) sharedStates(t *testing.T) string {
	t.Helper()
	names, err := f.admin.Do(t.Context(), f.admin.B().Keys().Pattern("tg:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var all strings.Builder
	for _, name := range names {
		if !sharedState.MatchString(name) {
			continue
		}
		state, err := f.admin.Do(t.Context(), f.admin.B().Get().Key(name).Build()).ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %q\n", name, state)
	}
	return all.String()
}
