//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	recorded "tidegate/internal/usage"
)

// A function that is called once and then stays frozen has sent all its counts: charts
// and rankings are complete without another call.
func TestOneCallIsCountedAtOnce(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	key, secret := f.newKey(t)
	reader := recorded.NewReader(f.client)
	for n := range int64(3) { // of which the last is denied
		began, event := time.Now(), []byte(restEvent(secret.Reveal()))
		if _, err := f.Invoke(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		waiting.Until(t, "the call is in all figures", func() bool {
			from, to := time.Now().Add(-10*time.Minute), time.Now().Add(time.Minute)
			total, err := reader.Overview(t.Context(), from, to, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			own, err := reader.Series(t.Context(), key.ID, from, to, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			busiest, err := reader.Busiest(t.Context(), from, to, 1)
			if err != nil {
				t.Fatal(err)
			}
			return recorded.Sum(total).Calls() == n+1 && recorded.Sum(own).Calls() == n+1 &&
				len(busiest) == 1 && busiest[0].Calls() == n+1
		})
		t.Logf("call %d: counted after %s", n+1, time.Since(began))
	}
}
