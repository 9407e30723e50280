package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/rolling"
	"tidegate/internal/testing/valkeytest"
)

// attack is many callers on a few keys, who never wait: what was admitted, and when, by
// the server's clock.
type attack struct {
	limiters []*Limiter
	keys     []string
	most     int64 // the largest cost of a call
	enough   int64 // units to admit on each key before it ends
	least    int64 // units that it admits on each key, if the calls are used up before

	mu       sync.Mutex
	admitted map[string][]time.Time // of every unit
}

const (
	attackers    = 16
	callsAtMost  = 20_000 // of all attackers
	callsPerLull = 20     // that are denied before an attacker waits as it is told
)

// run attacks until every key admitted enough, or the calls are used up.
func (a *attack) run(t *testing.T) {
	t.Helper()
	a.admitted = map[string][]time.Time{}
	var calls atomic.Int64
	var group sync.WaitGroup
	for i := range attackers {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		group.Go(func() {
			key := a.keys[i%len(a.keys)]
			for denied := 0; calls.Add(1) <= callsAtMost && !a.done(key); {
				l := a.limiters[random.IntN(len(a.limiters))]
				cost := 1 + random.Int64N(a.most)
				d, err := l.Take(t.Context(), key, cost)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					a.note(key, d.Now, cost)
				} else if denied++; denied%callsPerLull == 0 {
					wait(t.Context(), d.RetryAfter())
				}
			}
		})
	}
	group.Wait()
}

func (a *attack) done(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.admitted[key])) >= a.enough
}

func (a *attack) note(key string, at time.Time, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted[key] = append(a.admitted[key], slices.Repeat([]time.Time{at}, int(cost))...)
}

// wait waits for a time on the server's clock, more or less: nothing depends on how long
// it is.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// check expects no rolling window with more than the limit on any key, and that the limit
// was reached and windows passed.
func (a *attack) check(t *testing.T, limits ...Limit) {
	t.Helper()
	for _, key := range a.keys {
		times := a.admitted[key]
		if int64(len(times)) < a.least {
			t.Errorf("%s: only %d units were admitted within %d calls, want %d", key, len(times),
				callsAtMost, a.least)
		}
		instants := make([]rolling.Span, len(times))
		for i, at := range times {
			instants[i] = rolling.At(at.Sub(times[0]))
		}
		for _, l := range limits {
			if from, n := rolling.Fullest(instants, l.Window); int64(n) > l.Requests {
				t.Errorf("%s: %d units in the %s from %s on, of %s", key, n, l.Window, times[0].Add(from), l)
			}
		}
	}
}

// windowCases are attacks whose limits hold for every rolling window. Several lists of
// limits are edits that alternate; then the largest of each window holds.
var windowCases = map[string]struct {
	lists [][]Limit
	bound []Limit
	most  int64
}{
	"log":   {lists: [][]Limit{{{Requests: 50, Window: 100 * time.Millisecond}}}, most: 1},
	"costs": {lists: [][]Limit{{{Requests: 50, Window: 100 * time.Millisecond}}}, most: 7},
	"grouped log": {lists: [][]Limit{{{Requests: 1000, Window: 200 * time.Millisecond, Slots: MinSlots}}},
		most: 9},
	"attempts": {lists: [][]Limit{{{Requests: 1000, Window: 50 * time.Millisecond, CountDenied: true}}},
		most: 9},
	"several": {
		lists: [][]Limit{{
			{Requests: 10, Window: 10 * time.Millisecond},
			{Requests: 40, Window: 100 * time.Millisecond},
			{Requests: 100, Window: 300 * time.Millisecond, Slots: MinSlots},
		}}, most: 3,
	},
	"edits": {
		lists: [][]Limit{{{Requests: 60, Window: 100 * time.Millisecond}},
			{{Requests: 20, Window: 100 * time.Millisecond}}},
		bound: []Limit{{Requests: 60, Window: 100 * time.Millisecond}}, most: 3,
	},
	"edits of groups": {
		lists: [][]Limit{
			{{Requests: 1000, Window: 200 * time.Millisecond, Slots: MinSlots}},
			{{Requests: 100, Window: 200 * time.Millisecond, Slots: MinSlots}},
			{{Requests: 500, Window: 200 * time.Millisecond}},
		},
		bound: []Limit{{Requests: 1000, Window: 200 * time.Millisecond}}, most: 5,
	},
	"edits of the list": {
		lists: [][]Limit{
			{{Requests: 60, Window: 100 * time.Millisecond}},
			{{Requests: 60, Window: 100 * time.Millisecond},
				{Requests: 80, Window: 150 * time.Millisecond, Algorithm: TokenBucket}},
		},
		bound: []Limit{{Requests: 60, Window: 100 * time.Millisecond}}, most: 3,
	},
}

func checkWindows(t *testing.T, client valkey.Client, keys int) {
	t.Helper()
	for name, c := range windowCases {
		t.Run(name, func(t *testing.T) {
			a := &attack{limiters: limitersOf(t, client, "tg:"+name, c.lists...), most: c.most}
			for i := range keys {
				a.keys = append(a.keys, "caller "+strconv.Itoa(i))
			}
			bound := c.bound
			if bound == nil {
				bound = c.lists[0]
			}
			for _, l := range bound {
				a.enough, a.least = max(a.enough, 3*l.Requests), max(a.least, 3*l.Requests)
				if l.CountDenied { // so much as is admitted before the attack keeps itself out
					a.least = l.Requests
				}
			}
			a.run(t)
			a.check(t, bound...)
		})
	}
}

// Never does any rolling window of a log admit more than the limit, whatever the
// concurrency, the costs and the edits: on one node, many callers on one key.
func TestRollingWindowOfOneKey(t *testing.T) {
	checkWindows(t, separate(t, address(valkeytest.Start(t))), 1)
}

// The same on a cluster, with keys on every shard.
func TestRollingWindowOnACluster(t *testing.T) {
	var addresses []string
	for _, url := range valkeytest.StartCluster(t, 3, 0) {
		addresses = append(addresses, address(url))
	}
	checkWindows(t, separate(t, addresses...), 4)
}

// A caller who takes all of its limit just before a window ends and all of it again just
// after, gets no more either: the second burst gets through only as the first one leaves
// the window.
func TestRollingWindowAtTheBoundary(t *testing.T) {
	client := separate(t, address(valkeytest.Start(t)))
	limit := Limit{Requests: 40, Window: 100 * time.Millisecond}
	a := &attack{
		limiters: limitersOf(t, client, "tg:", []Limit{limit}), keys: []string{"caller"},
		admitted: map[string][]time.Time{},
		enough:   3 * limit.Requests, least: 3 * limit.Requests,
	}
	// more on a machine that stalls: a round that begins late may end before the window
	// of the one before
	const rounds, most = 4, 40
	for round := 0; round < rounds || round < most && !a.done(a.keys[0]); round++ {
		now := a.burst(t)
		next := now.Truncate(limit.Window).Add(limit.Window)
		// to the end of a window that is aligned to the epoch
		wait(t.Context(), next.Sub(now)-time.Millisecond)
		for now.Before(next) {
			now = a.burst(t)
		}
	}
	a.check(t, limit)
}

// burst calls from many sides at once, each until it is denied, and returns the last
// denial's time.
func (a *attack) burst(t *testing.T) (last time.Time) {
	t.Helper()
	var group sync.WaitGroup
	denials := make([]time.Time, attackers)
	for i := range attackers {
		group.Go(func() {
			for {
				d, err := a.limiters[0].Take(t.Context(), a.keys[0], 1)
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed {
					denials[i] = d.Now
					return
				}
				a.note(a.keys[0], d.Now, 1)
			}
		})
	}
	group.Wait()
	return slices.MaxFunc(denials, time.Time.Compare)
}

// admission is a cost that was admitted.
type admission struct {
	at   time.Time
	cost int64
}

// fullest returns the largest cost in any window [at, at+window) of admissions in order
// of time.
func fullest(admissions []admission, window time.Duration) (at time.Time, most int64) {
	first, sum := 0, int64(0)
	for _, a := range admissions {
		sum += a.cost
		for !admissions[first].at.Add(window).After(a.at) {
			sum -= admissions[first].cost
			first++
		}
		if sum > most {
			at, most = admissions[first].at, sum
		}
	}
	return at, most
}

// However often a log's limit is edited, up and down, with slots for one call or for
// many, no rolling window admits more than the largest limit, as long as that is at most
// DefaultSlots: of more calls in groups an edit to smaller groups keeps only so many.
func TestRollingWindowAcrossEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, largest, now := drawEdit(t), int64(0), at(0)
		var m Model
		var admissions []admission
		var log []string
		for range events(t) {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				limit = drawEdit(t)
			case 1:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(limit.Window/2)).Draw(t,
					"forward")).Truncate(time.Microsecond))
			}
			cost := rapid.OneOf(rapid.Int64Range(1, limit.Requests),
				rapid.Just(limit.Requests)).Draw(t, "cost")
			d, err := m.Take(now, []Limit{limit}, cost)
			if err != nil {
				t.Fatal(err)
			}
			line := "%d %s, %d slots: cost %d: %t, %d remain"
			log = append(log, fmt.Sprintf(line, now.UnixMicro(), limit, limit.Slots, cost, d.Allowed,
				d.Limits[0].Remaining))
			if largest = max(largest, limit.Requests); d.Allowed {
				admissions = append(admissions, admission{now, cost})
			}
		}
		if from, most := fullest(admissions, limit.Window); most > largest {
			t.Fatalf("%s\n%d admitted in the window from %d on, the largest limit was %d",
				strings.Join(log, "\n"), most, from.UnixMicro(), largest)
		}
	})
}

func drawEdit(t *rapid.T) Limit {
	return Limit{
		Requests: rapid.SampledFrom([]int64{5, 100, 900, 5_000, DefaultSlots}).Draw(t, "requests"),
		Window:   time.Minute,
		Slots:    rapid.SampledFrom([]int{0, MinSlots}).Draw(t, "slots"),
	}
}

// A limit that is lowered for a moment and raised again has forgotten nothing of its
// window.
func TestLoweringForAMomentForgetsNothing(t *testing.T) {
	var m Model
	high, low := []Limit{{Requests: DefaultSlots, Window: time.Minute, Slots: MinSlots}},
		[]Limit{{Requests: 100, Window: time.Minute}}
	for second, step := range []struct {
		limits  []Limit
		cost    int64
		allowed bool
	}{{high, DefaultSlots, true}, {low, 1, false}, {high, 1, false}} {
		d, err := m.Take(at(float64(second)), step.limits, step.cost)
		if err != nil || d.Allowed != step.allowed {
			t.Errorf("%s at %ds: allowed %t, %d remain, %v", step.limits[0], second, d.Allowed,
				d.Limits[0].Remaining, err)
		}
	}
}
