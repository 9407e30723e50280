package limiter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A refund gives back at most what the call took: a subject that took and was refunded is
// never better off than its twin that never took. A log without groups, a counter and a
// fixed window then stand as the twin does, unless the twin's window ended meanwhile.
func TestRefundGivesBackAtMostWhatWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{
			Requests: rapid.Int64Range(2, 40).Draw(t, "requests"), Window: windows.Draw(t, "window"),
			Algorithm: rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"),
		}
		checkRefund(t, limit)
	})
}

// A token bucket refills meanwhile: what a call took has partly or wholly come back by
// itself, and is not given back a second time.
func TestRefundOfATokenBucketThatRefilled(t *testing.T) {
	limits := []Limit{{Requests: 10, Window: 10 * time.Second, Algorithm: TokenBucket}}
	var m Model
	for _, e := range []struct {
		second float64
		cost   int64
	}{{0, 10}, {9, 5}} {
		if d, err := m.Take(at(e.second), limits, e.cost); err != nil || !d.Allowed {
			t.Fatalf("cost %d at %gs: %+v, %v", e.cost, e.second, d, err)
		}
	}
	// Without the first call, the second one would have left 5 of 10.
	if d := m.Refund(at(9), limits, 10, at(0), 0); d.Limits[0].Remaining > 5 {
		t.Errorf("%d remain after a refund of calls that had come back but for one, want at most 5",
			d.Limits[0].Remaining)
	}
}

// twins are a subject and another that did not make the call that is refunded.
type twins struct {
	limits     []Limit
	one, other Model
	now        time.Time
	log        []string
}

// take lets both take when the one may.
func (w *twins) take(t *rapid.T, cost int64) {
	d, err := w.one.Take(w.now, w.limits, cost)
	if err != nil {
		t.Fatal(err)
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d: %t", w.now.UnixMicro(), cost, d.Allowed))
	if !d.Allowed {
		return
	}
	if d, _ := w.other.Take(w.now, w.limits, cost); !d.Allowed {
		t.Fatalf("%v\n%s\nallowed only to the one that took more", w.limits, strings.Join(w.log, "\n"))
	}
}

func (w *twins) play(t *rapid.T) {
	for range events(t) {
		span := w.limits[0].Window.Microseconds()
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, span/3).Draw(t, "forward")) * time.Microsecond)
		w.take(t, rapid.Int64Range(1, w.limits[0].Requests).Draw(t, "cost"))
	}
}

func checkRefund(t *rapid.T, limit Limit) {
	t.Helper()
	w := &twins{limits: []Limit{limit}, now: at(0)}
	w.play(t)
	taken, cost := w.now, rapid.Int64Range(1, limit.Requests).Draw(t, "refunded")
	if d, err := w.one.Take(w.now, w.limits, cost); err != nil || !d.Allowed {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d, to be refunded", w.now.UnixMicro(), cost))
	w.play(t)
	got := w.one.Refund(w.now, w.limits, cost, taken, 0)
	want := w.other.Peek(w.now, w.limits)
	if got.Limits[0].Remaining > want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefunded at %d: %+v, but without the call it is %+v",
			w.limits, strings.Join(w.log, "\n"), w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
	exact := slices.Contains([]Algorithm{Log, Counter, FixedWindow}, limit.Algorithm)
	if exact && got.Limits[0].Remaining != want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefunded at %d: %+v, without the call %+v", w.limits, strings.Join(w.log, "\n"),
			w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
}
