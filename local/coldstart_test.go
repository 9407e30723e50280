//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// The first call of the built function is allowed, although its log-in takes longer than
// VALKEY_TIMEOUT. That holds in an environment that starts for the call, and in one that
// was frozen during the log-in.
func TestFirstCallWithASlowLogIn(t *testing.T) {
	server := valkeytest.Start(t)
	keys := startCheck(t, server, nil)
	proxy := valkeytest.StartProxy(t, server, nil)
	for _, delay := range []time.Duration{120 * time.Millisecond, 1500 * time.Millisecond} {
		proxy.DelayFirstReplies(delay)
		for name, warm := range map[string]int{"starts for the call": 0, "frozen while it logs in": 1} {
			t.Run(name+" "+delay.String(), func(t *testing.T) {
				// A machine that stalls for longer than VALKEY_TIMEOUT denies a first
				// call, so the test tries again.
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
}

// firstCall makes the first call to a new function that has the default time-outs, with a
// new key.
func (f *checkFunction) firstCall(t *testing.T, url string, warm int) (answer string, took time.Duration) {
	t.Helper()
	_, secret := f.newKey(t)
	function, err := lambda.Start(lambda.Config{
		Name: "check", Binary: filepath.Join(bin(), "check", "bootstrap"), Warm: warm, Timeout: checkTimeout,
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
