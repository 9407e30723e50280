//go:build unix

package main

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

const checkPepper = "a pepper that only these tests use"

var byTest = registrytest.Edit

// checkFunction is the built check function with its store.
type checkFunction struct {
	*lambda.Function
	store  *registry.Store
	data   string // folder of the log of changes
	client valkey.Client
	log    waiting.Buffer
	asked  atomic.Int64 // how often the environment asked for another event after an answer
	calls  atomic.Int64
}

// Invoke is that of one caller.
func (f *checkFunction) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	f.calls.Add(1)
	return f.Function.Invoke(ctx, event)
}

// rest waits until the environment sleeps, for longer than the time of which one that is
// never called again may hold counts.
func (f *checkFunction) rest(t *testing.T) {
	t.Helper()
	waiting.Until(t, "the environment sleeps", func() bool { return f.asked.Load() == f.calls.Load() })
	<-time.After(25 * time.Millisecond)
}

// startCheck starts the function with further variables. The plan of every caller allows
// two calls an hour.
func startCheck(t *testing.T, url string, more map[string]string) *checkFunction {
	t.Helper()
	return startCheckFrom(t, filepath.Join(bin(t), "check", "bootstrap"), url, t.TempDir(), more)
}

// startCheckFrom is startCheck with another build, and the folder of the log.
func startCheckFrom(t *testing.T, binary, url, data string, more map[string]string) *checkFunction {
	t.Helper()
	f := &checkFunction{client: storetest.Connect(t, url), data: data}
	f.store = registrytest.Open(t, f.client, data, apikey.Pepper(checkPepper))
	f.savePlan(t)
	env := map[string]string{"VALKEY_URL": url, "KEY_PEPPER": checkPepper, "VALKEY_TIMEOUT": "5s",
		"LOG_LEVEL": "debug"}
	maps.Copy(env, more)
	var err error
	f.Function, err = lambda.Start(lambda.Config{
		Name: "check", Binary: binary, Env: env, Warm: 1, Timeout: 30 * time.Second, Log: &f.log,
		Report: func(lambda.Report) { f.asked.Add(1) },
	})
	if err != nil {
		t.Fatalf("%v: %s", err, f.log.String())
	}
	t.Cleanup(f.Close)
	return f
}

func (f *checkFunction) newKey(t *testing.T) (policy.Key, apikey.Secret) {
	t.Helper()
	k, secret := registrytest.Create(t, f.store, byTest,
		policy.NewKey{Name: "a key", Env: "test", Plan: "two"})
	return k, secret
}

// savePlan saves the plan unless an earlier function has saved it.
func (f *checkFunction) savePlan(t *testing.T) {
	t.Helper()
	set, err := f.store.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Plans) > 0 {
		return
	}
	set.Plans = []policy.Plan{{Name: "two", Limits: registrytest.Limits("2 per hour")}}
	set.TokenPlan, set.AddressPlan = "two", "two"
	set.Limits = registrytest.Limits("100 per hour, each address")
	if _, err := f.store.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
}

// The first call of the built function is allowed, although its log-in takes longer than
// VALKEY_TIMEOUT. That holds in an environment that starts for the call, and in one that
// was frozen during the log-in.
func TestFirstCallWithASlowLogIn(t *testing.T) {
	t.Parallel() // it mostly waits
	server := valkeytest.Start(t)
	keys := startCheck(t, server, nil)
	proxy := valkeytest.StartProxy(t, server, nil)
	const delay = 1500 * time.Millisecond
	proxy.DelayFirstReplies(delay)
	for name, warm := range map[string]int{"starts for the call": 0, "frozen while it logs in": 1} {
		t.Run(name, func(t *testing.T) {
			// A machine that stalls for longer than VALKEY_TIMEOUT denies a first call, so
			// the test tries again.
			for began := time.Now(); time.Since(began) < waiting.Timeout; {
				answer, took := keys.firstCall(t, proxy.URL(), warm)
				if strings.Contains(answer, `"Allow"`) && !strings.Contains(answer, "degraded") {
					t.Logf("log-in of %s, %s: allowed after %s", delay, name, took)
					return
				}
				t.Logf("after %s: %s", took, answer)
			}
			t.Error("no first call was allowed")
		})
	}
}

// firstCall makes the first call to a new function with the default timeouts, with a new
// key.
func (f *checkFunction) firstCall(t *testing.T, url string, warm int) (answer string, took time.Duration) {
	t.Helper()
	_, secret := f.newKey(t)
	function, err := lambda.Start(lambda.Config{
		Name: "check", Binary: filepath.Join(bin(t), "check", "bootstrap"), Warm: warm, Timeout: checkTimeout,
		Env: map[string]string{"VALKEY_URL": url, "KEY_PEPPER": checkPepper},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer function.Close()
	began := time.Now()
	reply, err := function.Invoke(t.Context(),
		[]byte(canaryEvent("x-api-key", secret.Reveal(), canaryAddress)))
	if err != nil {
		return err.Error(), time.Since(began)
	}
	return string(reply), time.Since(began)
}
