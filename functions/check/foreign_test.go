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

// foreign returns a call from a network with a key value that another system made.
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

// decideUnknown makes a call that must be refused, and returns 1 if Valkey was asked, else
// 0. It records nothing, since usage records would be sent with such a call.
func (f *function) decideUnknown(t *testing.T, call enforce.Call) int {
	t.Helper()
	checked, attempt, err := f.decider.Decide(t.Context(), call)
	var refusal *policy.RefusedError
	if !errors.As(err, &refusal) || !errors.Is(err, policy.ErrUnknownKey) || checked.ID != "" {
		t.Fatalf("%+v, %v", checked, err)
	}
	if attempt.Err == nil {
		return 0
	}
	return 1
}

// wantAllowed fails the test unless the call is allowed.
func (f *function) wantAllowed(t *testing.T, what string, call enforce.Call) {
	t.Helper()
	checked, _, err := f.decider.Decide(t.Context(), call)
	if err != nil || !checked.Allowed || checked.ID != call.Subject {
		t.Errorf("%s: %+v, %v", what, checked, err)
	}
}

// importKey creates a key with the call's value.
func (f *function) importKey(t *testing.T, call enforce.Call, plan string) {
	t.Helper()
	f.set.ForeignKeys = true
	if _, _, err := f.set.Create(t.Context(), policy.NewKey{Name: "old", Env: "live", Plan: plan,
		Value: call.Secret.Reveal()}, tester); err != nil {
		t.Fatal(err)
	}
}

// Valkey is asked about an unknown value once in 5 seconds. A value that is imported
// meanwhile is accepted after that time.
func TestUnknownForeignValues(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: tenADay()})
	call := f.foreign(t, 1, "")
	f.decideUnknown(t, call) // the first call reads the policy and loads the script
	f.freeze(decide.UnknownFor)
	for range 3 {
		if asked := f.decideUnknown(t, call); asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
		for range 50 {
			if asked := f.decideUnknown(t, call); asked != 0 {
				t.Errorf("asked %d times about a value known to be unknown, want 0", asked)
			}
		}
		f.freeze(decide.UnknownFor)
	}
	f.decideUnknown(t, call)
	f.importKey(t, call, "free")
	f.freeze(decide.UnknownFor - time.Second)
	if asked := f.decideUnknown(t, call); asked != 0 {
		t.Errorf("asked %d times within %s, want 0", asked, decide.UnknownFor)
	}
	f.freeze(time.Second)
	f.wantAllowed(t, "imported", call)
	other := f.foreign(t, 2, "")
	f.importKey(t, other, "free")
	f.wantAllowed(t, "imported before its first call", other)
}

// Valkey is asked about at most 100 unknown values of a network in 5 seconds. Values that
// the environment knows, other networks and keys of our form are not affected.
func TestUnknownForeignValuesOfANetwork(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: tenADay()})
	const network, other = "192.0.2.1/32", "192.0.2.2/32"
	known := f.foreign(t, 0, network)
	f.importKey(t, known, "free")
	f.wantAllowed(t, "a good value", known)
	asked := 0
	for n := range 3 * decide.MaxUnknownOfNetwork {
		asked += f.decideUnknown(t, f.foreign(t, 1+n, network))
	}
	if asked != decide.MaxUnknownOfNetwork {
		t.Errorf("asked %d times, want %d", asked, decide.MaxUnknownOfNetwork)
	}
	f.wantAllowed(t, "a good value that the environment knows", known)
	own := f.key(t, "free")
	f.wantAllowed(t, "a key of our form", enforce.Call{Kind: policy.APIKey, Subject: own.ID(), Secret: own,
		Network: known.Network})
	if asked := f.decideUnknown(t, f.foreign(t, 1000, other)); asked != 1 {
		t.Errorf("another network: asked %d times, want 1", asked)
	}
	f.freeze(decide.UnknownFor)
	if asked := f.decideUnknown(t, f.foreign(t, 1001, network)); asked != 1 {
		t.Errorf("after %s: asked %d times, want 1", decide.UnknownFor, asked)
	}
}

// Valkey is asked about a revoked value on every call, so it is accepted at once when the
// key is restored.
func TestRevokedForeignValue(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "open", Limits: tenADay(), Degraded: policy.Open})
	call := f.foreign(t, 1, "192.0.2.1/32")
	f.importKey(t, call, "open")
	f.wantAllowed(t, "imported", call)
	if _, err := f.set.Revoke(t.Context(), call.Subject, 1, tester); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if asked := f.decideUnknown(t, call); asked != 1 {
			t.Errorf("asked %d times, want 1", asked)
		}
	}
	if _, err := f.set.Update(t.Context(), call.Subject, 2, "key.unrevoke", tester, func(k *policy.Key) {
		k.Status = policy.Active
	}); err != nil {
		t.Fatal(err)
	}
	f.wantAllowed(t, "restored", call)
}
