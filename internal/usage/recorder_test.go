package usage

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// However many callers ask and whenever, two Batches are at least an interval apart.
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
			t.Fatalf("%d batches at once", got.Load())
		}
		if got.Load() == 1 {
			batches = append(batches, now)
		}
		clock.set(now.Add(7 * time.Millisecond))
	}
	if len(batches) != 7 {
		t.Errorf("%d batches in 7 s", len(batches))
	}
	for i := 1; i < len(batches); i++ {
		if d := batches[i].Sub(batches[i-1]); d < time.Second {
			t.Errorf("batches %s apart", d)
		}
	}
}

func TestNothingIsDueWithoutOutcomes(t *testing.T) {
	r := recorderAt(noon)
	if r.Due(noon) || r.Batch(noon) != nil || r.Drain(noon) != nil {
		t.Error("an empty recorder has something to send")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon) == nil {
		t.Error("the first batch is not due at once")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon.Add(time.Second-1)) != nil || r.Drain(noon) == nil {
		t.Error("within the interval only Drain sends")
	}
	r.Record(Outcome{Time: noon})
	if r.Batch(noon.Add(-time.Hour)) == nil {
		t.Error("a clock that was set back stops the recorder")
	}
}

// A recorder that nobody flushes, flooded with unique subjects, keeps its bound;
// registered subjects still find room, and no call goes uncounted.
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
		t.Errorf("%d bytes are held", grown)
	}
	p := r.pending
	if p.unregistered != maxUnregistered || p.subjects != MaxSubjects || p.rules != maxMinutes*MaxRules ||
		p.totals != maxMinutes ||
		len(p.entries) != p.subjects+p.rules+p.totals {
		t.Errorf("%d unregistered, %d subjects, %d rules, %d totals", p.unregistered, p.subjects,
			p.rules, p.totals)
	}
	var sum tally
	for i := range p.entries {
		if p.entries[i].scope == total {
			sum.merge(&p.entries[i].tally)
		}
	}
	if c := sum.counts(); c.Calls() != flood+maxUnregistered || c.Unlisted != flood-maxUnregistered {
		t.Errorf("totals %+v", c)
	}
}

// Ids that could break a key's name, or take another's place, count in the totals alone.
func TestIDsThatAreNone(t *testing.T) {
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
		t.Errorf("%+v, %v", overview, err)
	}
	keys, err := client.Do(t.Context(), client.B().Dbsize().Build()).AsInt64()
	if err != nil || keys != 2 {
		t.Errorf("%d keys, %v; want the total's two", keys, err)
	}
}

// While the store takes nothing, the interval doubles up to its bound, and the first
// success makes it what it was.
func TestBackOff(t *testing.T) {
	r := recorderAt(noon)
	now := noon
	for _, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		maxPause, maxPause} {
		r.Record(Outcome{Time: now})
		b := r.Batch(now)
		if b == nil {
			t.Fatalf("no batch before %s", want)
		}
		b.Acknowledge(nil) // as after a time-out: no result
		r.Record(Outcome{Time: now})
		if r.Due(now.Add(want-1)) || !r.Due(now.Add(want)) {
			t.Errorf("not due after %s", want)
		}
		now = now.Add(want)
	}
	client := connect(t, valkeytest.Embedded(t))
	for range 2 { // the first one finds no script
		b := r.Batch(now)
		b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...))
		now = now.Add(time.Second)
		r.Record(Outcome{Time: now})
	}
	if !r.Due(now) {
		t.Error("still backing off")
	}
}

// After a pause every call may leave at once; a busy recorder keeps to the interval.
func TestEarlyBatches(t *testing.T) {
	r, now := recorderAt(noon), noon
	for _, pause := range []time.Duration{0, time.Hour, -time.Minute} {
		now = now.Add(pause)
		left := 0
		for range 2 * maxEarly {
			r.Record(Outcome{Time: now})
			if r.early(now) != nil {
				left++
			}
		}
		if left != maxEarly {
			t.Errorf("after %s: %d batches, want %d", pause, left, maxEarly)
		}
		if r.early(now.Add(time.Second-1)) != nil || r.early(now.Add(time.Second)) == nil {
			t.Errorf("after %s: one more is due after an interval, and not sooner", pause)
		}
		now = now.Add(time.Second)
	}
	if r.early(now.Add(time.Hour)) != nil {
		t.Error("a batch of nothing")
	}
	now = now.Add(time.Hour)
	r.Record(Outcome{Time: now})
	r.early(now).Acknowledge(nil) // as after a time-out: no result
	r.Record(Outcome{Time: now})
	if r.early(now.Add(2*time.Second-1)) != nil || r.early(now.Add(2*time.Second)) == nil {
		t.Error("while the store takes nothing, early batches wait like others")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	r := recorderAt(noon)
	o := Outcome{Subject: "a", Rules: []string{"rule"}, Time: noon, Cost: 2, Verdict: Denied | ShadowDenied}
	r.Record(o)
	if n := testing.AllocsPerRun(100, func() { r.Record(o) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, subjects := range []int{1, 1000} {
		b.Run(fmt.Sprintf("subjects=%d", subjects), func(b *testing.B) {
			r := recorderAt(noon)
			all := make([]Outcome, subjects)
			for i := range all {
				all[i] = Outcome{Subject: id(i), Registered: true, Time: noon}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Record(all[i%subjects])
			}
		})
	}
}

// BenchmarkFlush measures what a Batch of 1,000 subjects in all buckets costs: the client
// to build it, and the server to execute it.
func BenchmarkFlush(b *testing.B) {
	client := connect(b, valkeytest.Start(b))
	for _, fresh := range []bool{false, true} {
		b.Run(fmt.Sprintf("newMinute=%t", fresh), func(b *testing.B) {
			now, building := noon, time.Duration(0)
			r := NewRecorder(Options{}, func() time.Time { return now })
			record := func() {
				for i := range 1000 {
					r.Record(Outcome{Subject: id(i), Registered: true, Time: now})
				}
			}
			for range 12 { // so that every call is noted
				record()
				flush(b, r, client)
			}
			before := scriptMicros(b, client)
			for b.Loop() {
				if fresh {
					now = now.Add(time.Minute)
				}
				record()
				start := time.Now()
				batch := r.Drain(now)
				commands := batch.Commands(client)
				building += time.Since(start)
				if report := batch.Acknowledge(client.DoMulti(b.Context(),
					commands...)); report.Stored != 1000 {
					b.Fatalf("%+v", report)
				}
			}
			b.ReportMetric((scriptMicros(b, client)-before)/float64(b.N)/1000, "server-µs/subject")
			b.ReportMetric(float64(building.Microseconds())/float64(b.N)/1000, "client-µs/subject")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// scriptMicros returns the time that the server has spent in scripts.
func scriptMicros(tb testing.TB, client valkey.Client) float64 {
	tb.Helper()
	info, err := client.Do(tb.Context(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		tb.Fatal(err)
	}
	var calls, micros int64
	if _, err := fmt.Sscanf(statOf(info, "evalsha"), "calls=%d,usec=%d", &calls, &micros); err != nil {
		tb.Fatal(err)
	}
	return float64(micros)
}
