package limiter

import (
	"context"
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

// attack is many concurrent callers on a few keys. It records the times of the admitted
// calls on the server's clock.
type attack struct {
	limiters []*Limiter
	keys     []string
	most     int64 // the largest cost of a call
	enough   int64 // units admitted on a key after which its callers stop
	least    int64 // units that must be admitted on each key

	mu       sync.Mutex
	admitted map[string][]time.Time // time of every admitted unit
}

const (
	attackers      = 16
	maxCalls       = 20_000 // of all attackers
	denialsPerWait = 20     // denials after which an attacker waits for the retry-after
)

// run attacks until enough is admitted on every key, or maxCalls calls are made.
func (a *attack) run(t *testing.T) {
	t.Helper()
	a.admitted = map[string][]time.Time{}
	var calls atomic.Int64
	var group sync.WaitGroup
	for i := range attackers {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		group.Go(func() {
			key := a.keys[i%len(a.keys)]
			for denied := 0; calls.Add(1) <= maxCalls && !a.done(key); {
				l := a.limiters[random.IntN(len(a.limiters))]
				cost := 1 + random.Int64N(a.most)
				d, err := l.Take(t.Context(), key, cost)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					a.admit(key, d.Now, cost)
				} else if denied++; denied%denialsPerWait == 0 {
					wait(t.Context(), d.RetryAfter())
				}
			}
		})
	}
	group.Wait()
}

// done reports whether enough is admitted on a key.
func (a *attack) done(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.admitted[key])) >= a.enough
}

// admit records an admitted call.
func (a *attack) admit(key string, at time.Time, cost int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted[key] = append(a.admitted[key], slices.Repeat([]time.Time{at}, int(cost))...)
}

// wait waits for about d. No assertion depends on the exact time.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// check checks that no rolling window of a key exceeds a limit, and that at least a.least
// units were admitted on each key.
func (a *attack) check(t *testing.T, limits ...Limit) {
	t.Helper()
	for _, key := range a.keys {
		times := a.admitted[key]
		if int64(len(times)) < a.least {
			t.Errorf("%s: got %d units admitted by %d calls, want at least %d", key, len(times), maxCalls,
				a.least)
		}
		instants := make([]rolling.Span, len(times))
		for i, at := range times {
			instants[i] = rolling.At(at.Sub(times[0]))
		}
		for _, l := range limits {
			if from, n := rolling.Fullest(instants, l.Window); int64(n) > l.Requests {
				t.Errorf("%s: got %d units in the %s from %s, want at most %s", key, n, l.Window,
					times[0].Add(from), l)
			}
		}
	}
}

// windowCases are attacks whose bound holds for every rolling window; without a bound it
// is lists[0]. The callers alternate between several lists, as after edits. The bound
// then has the largest limit of a window.
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
		bound: []Limit{{Requests: 1600, Window: 200 * time.Millisecond}}, most: 5, // a budget each
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
				if l.CountDenied { // after that, the denied calls of the attack keep it denied
					a.least = l.Requests
				}
			}
			a.run(t)
			a.check(t, bound...)
		})
	}
}

// No rolling window of a log exceeds the limit, with many concurrent callers on one key
// of one node, any costs and edits.
func TestRollingWindowOfOneKey(t *testing.T) {
	checkWindows(t, connectUnpipelined(t, address(valkeytest.Start(t))), 1)
}

// The same holds on a cluster, with keys on every shard.
func TestRollingWindowOnACluster(t *testing.T) {
	var addresses []string
	for _, url := range valkeytest.StartCluster(t, 3, 0) {
		addresses = append(addresses, address(url))
	}
	checkWindows(t, connectUnpipelined(t, addresses...), 4)
}

// Bursts just before and just after a boundary of aligned windows do not exceed the limit
// of a log: the second burst is admitted only as the first one leaves the rolling window.
func TestRollingWindowAtTheBoundary(t *testing.T) {
	client := connectUnpipelined(t, address(valkeytest.Start(t)))
	limit := Limit{Requests: 40, Window: 100 * time.Millisecond}
	a := &attack{
		limiters: limitersOf(t, client, "tg:", []Limit{limit}), keys: []string{"caller"},
		admitted: map[string][]time.Time{},
		enough:   3 * limit.Requests, least: 3 * limit.Requests,
	}
	// A round that begins late on a busy machine may admit nothing, so there may be more
	// rounds.
	const rounds, most = 4, 40
	for round := 0; round < rounds || round < most && !a.done(a.keys[0]); round++ {
		now := a.burst(t)
		next := now.Truncate(limit.Window).Add(limit.Window)
		// Wait until just before the end of a window that is aligned to the epoch.
		wait(t.Context(), next.Sub(now)-time.Millisecond)
		for now.Before(next) {
			now = a.burst(t)
		}
	}
	a.check(t, limit)
}

// burst makes calls from all attackers at once, each until it is denied. It returns the
// time of the last denial.
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
				a.admit(a.keys[0], d.Now, 1)
			}
		})
	}
	group.Wait()
	return slices.MaxFunc(denials, time.Time.Compare)
}

// admission is an admitted cost, and whether each list of limits counted it.
type admission struct {
	at      time.Time
	cost    int64
	counted [4]bool
}

// However the lists of limits alternate, and whether an override replaces one, each limit
// has counted every call that was made while its list was in force or replaced. So its
// window, rolling or fixed, never exceeds it.
func TestWindowsAcrossLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lists [4][]Limit
		for i := range lists {
			lists[i] = make([]Limit, rapid.IntRange(1, 3).Draw(t, "limits"))
			for j := range lists[i] {
				lists[i][j] = drawWindow(t)
			}
		}
		var m Model
		var admissions []admission
		var log []string
		list, replaced, now := 0, -1, at(0)
		for range 10 * events(t) {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				list = rapid.IntRange(0, len(lists)-1).Draw(t, "list")
				replaced = rapid.IntRange(-1, len(lists)-1).Draw(t, "replaced")
			case 1:
				window := lists[list][0].Window.Microseconds()
				micros := rapid.Int64Range(0, window*11/10).Draw(t, "forward")
				now = now.Add(time.Duration(micros) * time.Microsecond)
			}
			step := Step{Now: now, Limits: lists[list],
				Cost: rapid.Int64Range(1, smallest(lists[list])).Draw(t, "cost")}
			call := admission{at: now, cost: step.Cost}
			call.counted[list] = true
			if replaced >= 0 {
				step.Counted = lists[replaced]
				call.counted[replaced] = true
			}
			d := m.Step(step)
			log = append(log, describe(step, 0, d))
			if !d.Allowed {
				continue
			}
			admissions = append(admissions, call)
			for _, l := range step.Limits {
				if n := counted(admissions, list, now, l); n > l.Requests {
					t.Fatalf("%s\ngot %d in the window of %+v", strings.Join(log, "\n"), n, l)
				}
			}
		}
	})
}

// counted returns the cost that a limit of a list has counted in the window that ends now.
func counted(admissions []admission, list int, now time.Time, l Limit) (cost int64) {
	start := now.Add(-l.Window + 1)
	if l.Algorithm == FixedWindow {
		start = time.UnixMicro(now.UnixMicro() / l.Window.Microseconds() * l.Window.Microseconds())
	}
	for _, a := range admissions {
		switch {
		case !a.counted[list] || a.at.Before(start):
		case l.Calls:
			cost++
		default:
			cost += a.cost
		}
	}
	return cost
}

// drawWindow draws a limit whose windows never exceed it.
func drawWindow(t *rapid.T) Limit {
	l := Limit{
		Requests: rapid.Int64Range(1, 90).Draw(t, "requests"),
		Window: rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, time.Minute, 20 * time.Minute,
			time.Hour}).Draw(t, "window"),
		Calls: rapid.IntRange(0, 3).Draw(t, "calls") == 0,
	}
	switch rapid.IntRange(0, 3).Draw(t, "algorithm") {
	case 0:
		l.Algorithm = FixedWindow
	case 1:
		l.Requests, l.Slots = 10*l.Requests, MinSlots
	}
	return l
}

// A limit that is lowered and raised again keeps all calls of its window.
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
			t.Errorf("%s at %ds: got allowed %t, %d remaining, %v, want allowed %t", step.limits[0], second,
				d.Allowed, d.Limits[0].Remaining, err, step.allowed)
		}
	}
}
