package main

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/decide"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
)

// foreign is a call with a value that another system made, from a network.
func (f *function) foreign(t *testing.T, n int, network string) enforce.Call {
	t.Helper()
	secret, err := apikey.NewKey(apikey.Pepper("only for this test, and long enough")).
		Foreign(fmt.Sprintf("AbCdEfGhIjKlMnOp%010d", n))
	if err != nil {
		t.Fatal(err)
	}
	call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
	if network != "" {
		call.Network = netip.MustParsePrefix(network)
	}
	return call
}

// unknown makes a call that must be refused, and returns how often Valkey was asked.
// Nothing is recorded, since usage records would leave with such a call.
func (f *function) unknown(t *testing.T, call enforce.Call) int {
	t.Helper()
	checked, asked, err := f.decider.Decide(t.Context(), call)
	var refusal *policy.RefusedError
	if !errors.As(err, &refusal) || !errors.Is(err, policy.ErrUnknownKey) || checked.ID != "" {
		t.Fatalf("%+v, %v", checked, err)
	}
	if asked.Err == nil {
		return 0
	}
	return 1
}

// allowed fails unless a call passes.
func (f *function) allowed(t *testing.T, what string, call enforce.Call) {
	t.Helper()
	checked, _, err := f.decider.Decide(t.Context(), call)
	if err != nil || !checked.Allowed || checked.ID != call.Subject {
		t.Errorf("%s: %+v, %v", what, checked, err)
	}
}

// importKey makes a key of the call's value.
func (f *function) importKey(t *testing.T, call enforce.Call, plan string) {
	t.Helper()
	f.set.ForeignKeys = true
	if _, _, err := f.set.Create(t.Context(), policy.NewKey{Name: "old", Env: "live", Plan: plan,
		Value: call.Secret.Reveal()}, tester); err != nil {
		t.Fatal(err)
	}
}

// An unknown value costs one round trip in 5 seconds, and one that is imported meanwhile
// is good when they have passed.
func TestUnknownForeignValues(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: tenADay()})
	call := f.foreign(t, 1, "")
	f.unknown(t, call) // the first one reads the policy, and sends the script
	f.freeze(decide.UnknownFor)
	for range 3 {
		if asked := f.unknown(t, call); asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
		for range 50 {
			if asked := f.unknown(t, call); asked != 0 {
				t.Errorf("asked %d times about what is known", asked)
			}
		}
		f.freeze(decide.UnknownFor)
	}
	f.unknown(t, call)
	f.importKey(t, call, "free")
	f.freeze(decide.UnknownFor - time.Second)
	if asked := f.unknown(t, call); asked != 0 {
		t.Errorf("asked %d times before the time has passed", asked)
	}
	f.freeze(time.Second)
	f.allowed(t, "imported", call)
	other := f.foreign(t, 2, "")
	f.importKey(t, other, "free")
	f.allowed(t, "imported before its first call", other)
}

// A network that tries values is asked about 100 of them in 5 seconds. Those that are
// good and known here pass, and so do other networks and keys of our form.
func TestUnknownForeignValuesOfANetwork(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: tenADay()})
	const network, other = "192.0.2.1/32", "192.0.2.2/32"
	known := f.foreign(t, 0, network)
	f.importKey(t, known, "free")
	f.allowed(t, "a good value", known)
	asked := 0
	for n := range 3 * decide.MaxUnknownOfNetwork {
		asked += f.unknown(t, f.foreign(t, 1+n, network))
	}
	if asked != decide.MaxUnknownOfNetwork {
		t.Errorf("asked %d times, want %d", asked, decide.MaxUnknownOfNetwork)
	}
	f.allowed(t, "a good value that is known here", known)
	own := f.key(t, "free")
	f.allowed(t, "a key of our form", enforce.Call{Kind: policy.APIKey, Subject: own.ID(), Secret: own,
		Network: known.Network})
	if asked := f.unknown(t, f.foreign(t, 1000, other)); asked != 1 {
		t.Errorf("another network: asked %d times", asked)
	}
	f.freeze(decide.UnknownFor)
	if asked := f.unknown(t, f.foreign(t, 1001, network)); asked != 1 {
		t.Errorf("after %s: asked %d times", decide.UnknownFor, asked)
	}
}

// A value that is revoked is refused at each call, and good again at once when the key is
// restored, since Valkey is asked.
func TestRevokedForeignValue(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "open", Limits: tenADay(), Degraded: policy.Open})
	call := f.foreign(t, 1, "192.0.2.1/32")
	f.importKey(t, call, "open")
	f.allowed(t, "imported", call)
	if _, err := f.set.Revoke(t.Context(), call.Subject, 1, tester); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if asked := f.unknown(t, call); asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
	}
	if _, err := f.set.Update(t.Context(), call.Subject, 2, "key.unrevoke", tester, func(k *policy.Key) {
		k.Status = policy.Active
	}); err != nil {
		t.Fatal(err)
	}
	f.allowed(t, "restored", call)
}
