package records

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

// After an outage nothing that an environment holds is lost or counted twice, and all
// minutes of the outage say "at least", since other environments may be asleep.
func TestOutage(t *testing.T) {
	w := one(t, 1)
	e, at := w.envs[0], w.clock.Now()
	e.call(allowed("through", at))
	valkeytest.Ask(t, w.url, "CONFIG", "SET", "maxmemory", "1")
	for i := range 200 {
		c := allowed("through", at.Add(time.Duration(i+1)*time.Second))
		if c.Degraded = true; i%2 == 0 {
			c.Cause = cause.Unavailable
		}
		e.record(c)
		if report := e.Send(t.Context(), w.writes); report.Lost > 0 || report.Err == nil &&
			report != (Report{}) {
			t.Fatalf("call %d: got %+v, want an error and nothing lost, or a pause", i, report)
		}
	}
	valkeytest.Ask(t, w.url, "CONFIG", "SET", "maxmemory", "0")
	w.clock.set(at.Add(5*time.Minute + 30*time.Second))
	e.end()
	s := w.caller("through", Last(time.Hour, time.Minute, w.clock.Now()))
	if sum := s.Sum(); sum.Allowed != 101 || sum.Refused != 100 || sum.Degraded != 200 {
		t.Errorf("got %+v, want 101 allowed and 100 refused calls", sum)
	}
	for _, p := range s.Points {
		if want := !p.Start.Before(at) && p.Start.Before(at.Add(6*time.Minute)); p.AtLeast != want {
			t.Errorf("%v: AtLeast is %v, want %v", p.Start, p.AtLeast, want)
		}
	}
}

// A batch whose replies are lost is not sent again, so that no call counts twice. Its
// minutes say "at least". The entry of a denial is sent again, and is listed once.
func TestLostReplies(t *testing.T) {
	w := one(t, 1)
	e, at := w.envs[0], w.clock.Now()
	e.record(deniedBy("1 per hour", allowed("lost", at)))
	b := e.Batch(at)
	w.writes.DoMulti(t.Context(), b.Commands(w.writes)...)
	report := b.Acknowledge(nil)
	if report.Lost == 0 || report.Returned != 0 || !errors.Is(report.Err, errNoResult) {
		t.Fatalf("got %+v, want counts lost", report)
	}
	w.clock.set(at.Add(10 * time.Second))
	e.end()
	e.call(deniedBy("1 per hour", allowed("lost", at.Add(11*time.Second))))
	s := w.caller("lost", Last(time.Hour, time.Minute, w.clock.Now()))
	if p := s.Points[len(s.Points)-1]; p.Denied != 2 || !p.AtLeast {
		t.Errorf("got %+v, want 2 denied calls, at least", p)
	}
	page, err := w.reader.Denials(t.Context(), DenialQuery{From: at, To: at.Add(time.Minute), Count: 10})
	if err != nil || len(page.Denials) != 1 || page.Denials[0].Calls != 2 {
		t.Errorf("got %+v, %v, want one denial of 2 calls", page, err)
	}
}

// Keys that are made again after Valkey lost its data expire too, also within the minute
// in which the Recorder set the expiry of the lost ones.
func TestExpiryAfterLossOfData(t *testing.T) {
	w := one(t, 1)
	e, at := w.envs[0], w.clock.Now()
	e.call(deniedBy("1 per hour", allowed("again", at)))
	valkeytest.Ask(t, w.url, "FLUSHALL")
	e.call(allowed("again", at.Add(time.Second)))
	e.call(deniedBy("1 per hour", allowed("again", at.Add(2*time.Second))))
	if bare, all := w.noExpiry(); len(bare) > 0 || all < 4 {
		t.Errorf("of %d keys %v have no time to live, want none", all, bare)
	}
}

// A Recorder holds a bounded number of records. Calls of callers beyond it count in the
// totals, which say how many.
func TestRecorderIsBounded(t *testing.T) {
	w := one(t, 1)
	e, at := w.envs[0], w.clock.Now()
	const calls = 50_000
	for i := range calls {
		c := deniedBy(fmt.Sprint(i, " per hour"), allowed(fmt.Sprint("made-up-", i), at))
		c.Registered = i%2 == 0
		e.record(c)
	}
	p := e.pending
	if len(p.counts) > 2*maxCounts || len(p.callers) > maxCallers || len(p.denials) > maxKinds ||
		len(p.states) > 2*maxCallers || len(p.ranked) > 2*maxCallers || len(e.standings) > maxMemory {
		t.Errorf("got %d counts, %d callers, %d denials", len(p.counts), len(p.callers), len(p.denials))
	}
	e.end()
	total, err := w.reader.Total(t.Context(), Last(time.Hour, 0, w.clock.Now()))
	if sum := total.Sum(); err != nil || sum.Denied != calls || sum.Unlisted < calls-maxCallers {
		t.Errorf("got %+v, %v, want %d denied and the most of them unlisted", sum, err, calls)
	}
}

// A Recorder may be used by many calls at once, as by the check server.
func TestConcurrentCalls(t *testing.T) {
	w := one(t, 1)
	r, at := NewRecorder(time.Now), w.clock.Now()
	const workers, each = 8, 500
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := range each {
				c := allowed(fmt.Sprint("worker", worker), at)
				if i%2 == 0 {
					c = deniedBy("1 per hour", c)
				}
				r.Record(c)
				if report := r.Send(t.Context(), w.writes); report != (Report{}) {
					t.Errorf("send: %+v", report)
				}
			}
		})
	}
	wait.Wait()
	if report := r.Flush(t.Context(), w.writes); report != (Report{}) {
		t.Errorf("flush: %+v", report)
	}
	total, err := w.reader.Total(t.Context(), Last(time.Hour, time.Minute, at))
	if sum := total.Sum(); err != nil || sum.Allowed != workers*each/2 || sum.Denied != workers*each/2 {
		t.Errorf("got %+v, %v, want %d calls", sum, err, workers*each)
	}
	page, err := w.reader.Denials(t.Context(), DenialQuery{From: at, To: at.Add(time.Minute), Count: 10})
	if err != nil || len(page.Denials) != workers {
		t.Errorf("got %d denials, %v, want one of each worker", len(page.Denials), err)
	}
}

// Made-up callers take a bounded part of Valkey, and none of the lists of registered ones.
func TestNewcomersAreBounded(t *testing.T) {
	tier.Two(t, "records 60,000 callers")
	w := one(t, 4)
	at := w.clock.Now()
	const newcomers = 60_000
	for i := range newcomers {
		c := allowed(fmt.Sprint("made-up-", i), at.Add(time.Duration(i)*time.Millisecond))
		c = deniedBy("1 per hour, each address", c)
		c.Registered = false
		w.envs[i%4].call(c)
	}
	w.envs[0].call(deniedBy("1 per hour", allowed("registered", w.clock.Now().Add(time.Second))))
	for _, e := range w.envs {
		e.end()
	}
	total, err := w.reader.Total(t.Context(), Last(time.Hour, 0, w.clock.Now()))
	listed := newcomers + 1 - total.Sum().Unlisted
	most := int64(partitions * maxNewcomers * 11 / 10)
	if err != nil || total.Sum().Denied != newcomers+1 || listed > most {
		t.Errorf("got %d of %d callers listed, %v, want at most %d", listed, total.Sum().Denied, err, most)
	}
	page, err := w.reader.InState(t.Context(), DeniedNow, true, "", 10)
	if err != nil || !slices.Equal(page.IDs, []string{"registered"}) {
		t.Errorf("got %v, %v, want the registered caller alone", page, err)
	}
}

// Texts of references and cursors that are not ours are refused.
func TestParse(t *testing.T) {
	c := deniedBy("5 per minute", allowed("a.b-c", time.Unix(1_795_000_000, 0)))
	ref := ReferenceOf(&c)
	if got, ok := ParseReference(" " + ref.String() + "\n"); !ok || got != ref {
		t.Errorf("got %v, %v, want %v", got, ok, ref)
	}
	for _, text := range []string{"", "a", "a.b", "a..b", "a:b.1.2", ".1.2", "a.-1.2", "a.zzzzzzzzzzzzz.1",
		"~.1.1"} {
		if got, ok := ParseReference(text); ok {
			t.Errorf("%q: got %v, want no reference", text, got)
		}
	}
	r := NewReader(nil, time.Now)
	for _, cursor := range []string{"1", "-1.0.0.0.0.0.0.0", "x", "1-2"} {
		if _, err := r.InState(t.Context(), Near, true, cursor, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: got error %v, want ErrCursor", cursor, err)
		}
		if _, err := r.Denials(t.Context(), DenialQuery{After: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: got error %v, want ErrCursor", cursor, err)
		}
	}
}

// A caller takes a bounded part of Valkey's memory: one that is seen once, and one that
// calls in every minute of an hour.
func TestBytesOfACaller(t *testing.T) {
	const callers = 1000 // as many as a batch has
	for _, v := range []struct {
		name    string
		minutes int
		most    float64
	}{{"once", 1, 1000}, {"each minute", 60, 1500}} {
		s := measured(t)
		clock := &clock{now: recent()}
		r := NewRecorder(clock.Now)
		before := s.figures().memory
		for minute := range v.minutes {
			clock.set(recent().Add(time.Duration(minute) * time.Minute))
			for i := range callers {
				r.Record(allowed(fmt.Sprintf("%022d", i), clock.Now()))
			}
			if report := r.Flush(t.Context(), s.client); report != (Report{}) {
				t.Fatalf("flush: %+v", report)
			}
		}
		bytes := (s.figures().memory - before) / callers
		t.Logf("%s: %.0f bytes a caller", v.name, bytes)
		if bytes > v.most {
			t.Errorf("%s: got %.0f bytes a caller, want at most %.0f", v.name, bytes, v.most)
		}
	}
}
