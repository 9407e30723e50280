package usage

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// Batches are at least an interval apart, also with concurrent callers.
func TestAtMostOneBatchAnInterval(t *testing.T) {
	clock := clock{now: noon}
	r := NewRecorder(Options{}, clock.Now)
	var batches []time.Time
	for range 1000 {
		now := clock.Now()
		r.Record(Outcome{Subject: "a", Time: now})
		var got atomic.Int32
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				if r.Due(now) && r.Batch(now) != nil {
					got.Add(1)
				}
			})
		}
		callers.Wait()
		if got.Load() > 1 {
			t.Fatalf("got %d batches at the same time, want at most 1", got.Load())
		}
		if got.Load() == 1 {
			batches = append(batches, now)
		}
		clock.set(now.Add(7 * time.Millisecond))
	}
	if len(batches) != 7 {
		t.Errorf("got %d batches in 7 s, want 7", len(batches))
	}
	for i := 1; i < len(batches); i++ {
		if d := batches[i].Sub(batches[i-1]); d < time.Second {
			t.Errorf("batches %d and %d: got %s apart, want at least 1 s", i-1, i, d)
		}
	}
}

// A Batch is due at once for the first outcomes, then after an interval; without outcomes
// none is. Drain does not wait.
func TestDue(t *testing.T) {
	r := recorderAt(noon)
	if r.Due(noon) || r.Batch(noon) != nil || r.Drain(noon) != nil {
		t.Error("an empty recorder has a batch")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon) == nil {
		t.Error("the first batch is not due immediately")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon.Add(time.Second-1)) != nil || r.Drain(noon) == nil {
		t.Error("within the interval, only Drain should return a batch")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon.Add(-time.Hour)) == nil {
		t.Error("no batch after the clock was set back")
	}
}

// A flood of unique subjects without a flush stays within the Recorder's bounds. It
// leaves room for registered subjects, and the totals count every call.
func TestFloodIsBoundedInTheRecorder(t *testing.T) {
	r := recorderAt(noon)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const flood = 100_000
	for i := range flood {
		r.Record(Outcome{Subject: id(i), Rules: []string{id(i)},
			Time: noon.Add(time.Duration(5*i) * time.Millisecond)})
	}
	for i := range maxUnregistered {
		r.Record(Outcome{Subject: fmt.Sprint("key", i), Registered: true, Time: noon})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2<<20 {
		t.Errorf("the heap grew by %d bytes, want at most 2 MiB", grown)
	}
	p := r.pending
	if p.unregistered != maxUnregistered || p.subjects != MaxSubjects || p.rules != maxMinutes*MaxRules ||
		p.totals != maxMinutes ||
		len(p.entries) != p.subjects+p.rules+p.totals {
		t.Errorf("got %d unregistered of %d subjects, %d rules, %d totals; want %d of %d, %d, %d",
			p.unregistered, p.subjects, p.rules, p.totals, maxUnregistered, MaxSubjects,
			maxMinutes*MaxRules, maxMinutes)
	}
	var sum tally
	for i := range p.entries {
		if p.entries[i].scope == total {
			sum.merge(&p.entries[i].tally)
		}
	}
	if c := sum.counts(); c.Calls() != flood+maxUnregistered || c.Unlisted != flood-maxUnregistered {
		t.Errorf("totals: got %+v, want %d calls, %d of them unlisted", c, flood+maxUnregistered,
			flood-maxUnregistered)
	}
}

// Calls with ids that could break a key's name, or collide with another, count in the
// totals alone.
func TestInvalidIDs(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	r := recorderAt(noon)
	bad := []string{"", "a:b", "a{b}", "a}", "a b", "a\n", "a\x00", "\xff", totalID, rulePrefix + "a",
		string(make([]byte, maxIDLen+1))}
	for _, subject := range bad {
		r.Record(Outcome{Subject: subject, Rules: []string{subject}, Time: noon})
	}
	flush(t, r, client)
	overview, err := NewReader(client).Overview(t.Context(), noon, noon.Add(time.Minute), time.Minute)
	if want := int64(len(bad)); err != nil || overview[0].Allowed != want || overview[0].Unlisted != want {
		t.Errorf("got %+v, %v; want %d unlisted calls", overview, err, want)
	}
	keys, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64()
	if err != nil || keys != 2 {
		t.Errorf("got %d keys, %v; want the two of the totals", keys, err)
	}
}

// While Valkey fails, the interval doubles up to its bound. The first success resets it.
func TestBackOff(t *testing.T) {
	r := recorderAt(noon)
	now := noon
	for _, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		maxPause, maxPause} {
		r.Record(Outcome{Time: now})
		b := r.Batch(now)
		if b == nil {
			t.Fatalf("no batch is due before a pause of %s", want)
		}
		b.Acknowledge(nil) // as after a time-out: no result
		r.Record(Outcome{Time: now})
		if r.Due(now.Add(want-1)) || !r.Due(now.Add(want)) {
			t.Errorf("want a batch due after exactly %s", want)
		}
		now = now.Add(want)
	}
	client := connect(t, valkeytest.Embedded(t))
	for range 2 { // the server does not know the first one's script
		b := r.Batch(now)
		b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...))
		now = now.Add(time.Second)
		r.Record(Outcome{Time: now})
	}
	if !r.Due(now) {
		t.Error("the interval was not reset after a success")
	}
}

// After a pause, each of the next maxEarly calls may send a Batch. A busy recorder keeps
// to the interval.
func TestEarlyBatches(t *testing.T) {
	r, now := recorderAt(noon), noon
	for _, pause := range []time.Duration{0, time.Hour, -time.Minute} {
		now = now.Add(pause)
		batches := 0
		for range 2 * maxEarly {
			r.Record(Outcome{Time: now})
			if r.early(now) != nil {
				batches++
			}
		}
		if batches != maxEarly {
			t.Errorf("after %s: got %d batches, want %d", pause, batches, maxEarly)
		}
		if r.early(now.Add(time.Second-1)) != nil || r.early(now.Add(time.Second)) == nil {
			t.Errorf("after %s: want one more batch after exactly an interval", pause)
		}
		now = now.Add(time.Second)
	}
	if r.early(now.Add(time.Hour)) != nil {
		t.Error("got a batch without pending records")
	}
	now = now.Add(time.Hour)
	r.Record(Outcome{Time: now})
	r.early(now).Acknowledge(nil) // as after a time-out: no result
	r.Record(Outcome{Time: now})
	if r.early(now.Add(2*time.Second-1)) != nil || r.early(now.Add(2*time.Second)) == nil {
		t.Error("after a failed batch, want an early batch after exactly 2 s")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	r := recorderAt(noon)
	o := Outcome{Subject: "a", Rules: []string{"rule"}, Time: noon, Cost: 2, Verdict: Denied | ShadowDenied}
	r.Record(o)
	if n := testing.AllocsPerRun(100, func() { r.Record(o) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
