//go:build unix

package main

import (
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/syncbuffer"
	"tidegate/local/lambda"
)

const checkPepper = "a pepper that only these tests use"

var byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}}

// checkFunction is the built check function with its store.
type checkFunction struct {
	*lambda.Function
	store  *registry.Store
	client valkey.Client
	log    syncbuffer.Buffer
}

// startCheck runs the function with more variables. Its store has a plan of two calls an
// hour for everybody.
func startCheck(t *testing.T, url string, more map[string]string) *checkFunction {
	t.Helper()
	return startCheckFrom(t, filepath.Join(bin(), "check", "bootstrap"), url, more)
}

// startCheckFrom is startCheck with another build.
func startCheckFrom(t *testing.T, binary, url string, more map[string]string) *checkFunction {
	t.Helper()
	f := &checkFunction{}
	var err error
	if f.client, err = store.Open(t.Context(), url,
		store.Options{Dial: 5 * time.Second, Write: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	f.store = registry.NewStore(f.client, apikey.Pepper(checkPepper))
	f.savePlan(t)
	env := map[string]string{"VALKEY_URL": url, "KEY_PEPPER": checkPepper, "VALKEY_TIMEOUT": "5s",
		"LOG_LEVEL": "debug"}
	maps.Copy(env, more)
	f.Function, err = lambda.Start(lambda.Config{
		Name: "check", Binary: binary, Env: env, Warm: 1, Timeout: 30 * time.Second, Log: &f.log,
	})
	if err != nil {
		t.Fatalf("%v: %s", err, f.log.String())
	}
	t.Cleanup(f.Close)
	return f
}

func (f *checkFunction) newKey(t *testing.T) (policy.Key, apikey.Secret) {
	t.Helper()
	k, secret, err := f.store.Create(t.Context(),
		policy.NewKey{Name: "a key", Env: "test", Plan: "two"}, byTest)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

// savePlan saves the plan unless an earlier function has saved it.
func (f *checkFunction) savePlan(t *testing.T) {
	t.Helper()
	set, err := f.store.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if set.Version > 0 {
		return
	}
	set.Plans = []policy.Plan{{Name: "two", Limits: []limiter.Limit{{Requests: 2, Window: time.Hour}}}}
	set.TokenPlan, set.AddressPlan = "two", "two"
	set.PerIP.Limits = []limiter.Limit{{Requests: 100, Window: time.Hour}}
	if _, err := f.store.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
}
