//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/records"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// A function that is called once and then stays frozen has sent all its counts: charts
// and rankings are complete without another call.
func TestOneCallIsCountedAtOnce(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), nil)
	key, secret := f.newKey(t)
	reader := records.NewReader(f.client, time.Now)
	for n := range int64(3) { // of which the last is denied
		f.rest(t)
		began, event := time.Now(), []byte(restEvent(secret.Reveal()))
		if _, err := f.Invoke(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		waiting.Until(t, "the call is in all figures", func() bool {
			last := records.Last(10*time.Minute, time.Minute, time.Now())
			total, err := reader.Total(t.Context(), last)
			if err != nil {
				t.Fatal(err)
			}
			own, err := reader.Caller(t.Context(), key.ID, last)
			if err != nil {
				t.Fatal(err)
			}
			ranked, err := reader.Rank(t.Context(), last, records.Busiest, 1)
			if err != nil {
				t.Fatal(err)
			}
			return total.Sum().Calls() == n+1 && own.Sum().Calls() == n+1 && len(ranked) == 1 &&
				ranked[0].Calls() == n+1
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
		total, err := records.NewReader(client, time.Now).Total(t.Context(),
			records.Last(10*time.Minute, 0, time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		return total.Sum().Calls() == 12
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
	own, err := records.NewReader(f.client, time.Now).Caller(t.Context(), k.ID,
		records.Last(10*time.Minute, 0, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if got := own.Sum().Calls(); got != calls {
		t.Errorf("%d of %d calls are recorded; output: %s", got, calls, f.log.String())
	}
}
