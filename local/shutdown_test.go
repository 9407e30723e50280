//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
	recorded "tidegate/internal/usage"
)

// Usage records that a function still holds are sent when its environment ends. Lambda
// sends SIGTERM first, since the function has registered an extension. The calls follow
// each other closely, so only the first are recorded right after their answers.
func TestRecordsAreSentAtTheEnd(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	k, secret := f.newKey(t)
	const calls = 100
	for range calls {
		if _, err := f.Invoke(t.Context(), []byte(restEvent(secret.Reveal()))); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	from, to := time.Now().Add(-10*time.Minute), time.Now().Add(time.Minute)
	own, err := recorded.NewReader(f.client).Series(t.Context(), k.ID, from, to, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := recorded.Sum(own).Calls(); got != calls {
		t.Errorf("%d of %d calls are recorded; output: %s", got, calls, f.log.String())
	}
}
