//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/testing/storetest"
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
			ranked, err := reader.Rank(t.Context(), from, to, time.Minute, 1, recorded.Busiest)
			if err != nil {
				t.Fatal(err)
			}
			return recorded.Sum(total).Calls() == n+1 && recorded.Sum(own).Calls() == n+1 &&
				len(ranked[recorded.Busiest]) == 1 && ranked[recorded.Busiest][0].Calls() == n+1
		})
		t.Logf("call %d: counted after %s", n+1, time.Since(began))
	}
}

// Idle functions send the usage records of their last calls without a further call.
func TestIdleFunctionsSendTheirUsage(t *testing.T) {
	url := valkeytest.Start(t)
	p, c := start(t, "-valkey", url, "-data", t.TempDir()), newCaller(t, 1)
	client := storetest.Connect(t, url)
	for range 12 {
		c.get(p.url("rest")+"/orders", p.key("free"))
	}
	waiting.Until(t, "12 calls are counted", func() bool {
		now := time.Now()
		points, err := recorded.NewReader(client).Overview(t.Context(), now.Add(-10*time.Minute),
			now.Add(time.Minute), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		total := recorded.Sum(points)
		return total.Allowed+total.Denied == 12
	})
}

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
