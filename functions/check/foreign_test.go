package main

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
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

// decideUnknown makes a call that must be refused after Valkey was asked. It records
// nothing, since usage records would be sent with such a call.
func (f *function) decideUnknown(t *testing.T, call enforce.Call) {
	t.Helper()
	checked, attempt, err := f.decider.Decide(t.Context(), call)
	var refusal *policy.RefusedError
	if !errors.As(err, &refusal) || refusal.Cause != cause.Unknown || checked.ID != "" ||
		attempt.Err == nil {
		t.Fatalf("got %+v, %+v, %v; want an unknown key that Valkey was asked about", checked, attempt, err)
	}
}

// madeUp returns a call with a key of our form that nobody created.
func madeUp(t *testing.T) enforce.Call {
	t.Helper()
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	return enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
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

// While made-up keys arrive, good keys of the same network, known to the environment or not,
// of our form or foreign, are allowed all the time, and so is a key that is imported
// meanwhile.
func TestMadeUpKeysHurtNobody(t *testing.T) {
	f := newFunction(t, policy.Plan{Name: "free", Limits: registrytest.Limits("10 per day")})
	const network = "192.0.2.1/32"
	good := func(n int) []enforce.Call {
		own, value := f.key(t, "free"), f.foreign(t, n, network)
		f.importKey(t, value, "free")
		return []enforce.Call{value, {Kind: policy.APIKey, Subject: own.ID(), Secret: own,
			Network: value.Network}}
	}
	known := good(0)
	for _, call := range known {
		f.wantAllowed(t, "a good key", call)
	}
	for n := range 50 {
		f.decideUnknown(t, f.foreign(t, 100+n, network))
		f.decideUnknown(t, madeUp(t))
	}
	for _, call := range append(good(1), known...) {
		f.wantAllowed(t, "a good key beside made-up ones", call)
	}
	imported := f.foreign(t, 2, network)
	f.decideUnknown(t, imported)
	f.importKey(t, imported, "free")
	f.wantAllowed(t, "imported just now", imported)
}

// Valkey is asked about a revoked value on every call, so it is accepted at once when the
// key is restored.
func TestRevokedForeignValue(t *testing.T) {
	f := newFunction(t, openPlan)
	call := f.foreign(t, 1, "192.0.2.1/32")
	f.importKey(t, call, "open")
	f.wantAllowed(t, "imported", call)
	if _, err := registrytest.Revoke(t.Context(), f.set, call.Subject, tester); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, attempt, err := f.decider.Decide(t.Context(), call)
		if !errors.Is(err, policy.ErrUnknownKey) || attempt.Err == nil {
			t.Errorf("got %+v, %v; want the key revoked after Valkey was asked", attempt, err)
		}
	}
	if _, err := registrytest.Update(t.Context(), f.set, call.Subject, "key.unrevoke", tester,
		func(k *policy.Key) {
			k.Status = policy.Active
		}); err != nil {
		t.Fatal(err)
	}
	f.wantAllowed(t, "restored", call)
}
