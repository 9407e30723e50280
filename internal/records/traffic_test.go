package records

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tidegate/internal/cause"
)

// verdict is a kind of result in the traffic.
type verdict struct {
	cause         cause.Cause
	limit, reason string
	retry         time.Duration
	shadow        string
}

var verdicts = []verdict{
	{}, {}, {}, {}, {shadow: "40 per minute, shadow"},
	{cause: cause.Limit, limit: "60 per 10 seconds", retry: 3 * time.Second},
	{cause: cause.Limit, limit: "20 per minute, on search, each caller", retry: 40 * time.Second},
	{cause: cause.Limit, limit: "100 per minute, each address", retry: 30 * time.Second},
	{cause: cause.Limit, limit: "1,000 calls per calendar month (Europe/Berlin), each group",
		retry: time.Hour},
	{cause: cause.Limit, limit: "5 per minute"}, // below the cost: no retry passes
	{cause: cause.Ban, retry: 10 * time.Minute},
	{cause: cause.Revoked}, {cause: cause.Access, reason: "opens GET /a, GET /b"},
	{cause: cause.Unknown}, {cause: cause.Missing}, {cause: cause.Address, reason: "DENY_ADDRESSES"},
}

var trafficCallers = []string{"alpha", "beta", "gamma", "delta", "epsilon", "host.1", "host.2", "token-9"}

// randomCall returns a call of the traffic at a time. n is its number.
func randomCall(random *rand.Rand, at time.Time, n int) Call {
	v := verdicts[random.IntN(len(verdicts))]
	id := trafficCallers[random.IntN(len(trafficCallers))]
	c := Call{Time: at, Caller: id, Registered: id < "h", Cause: v.cause, Limit: v.limit, Reason: v.reason,
		RetryAfter: v.retry, Shadow: v.shadow, Plan: []string{"free", "pro"}[random.IntN(2)],
		Cost: []int64{0, 1, 1, 7}[random.IntN(4)], OldSecret: random.IntN(10) == 0,
		Routes:  [][]string{nil, {"search"}, {"search", "reads"}}[random.IntN(3)],
		Request: fmt.Sprintf("request-%d", n), Method: "GET", Path: "/find/{q}"}
	if v.cause == cause.Unknown || v.cause == cause.Missing || v.cause == cause.Address {
		c.Caller, c.Registered = "", false
	}
	return c
}

// A number on a page equals the calls that were made: whatever the Reader tells of known
// traffic is compared with a plain list of its calls. Most environments sleep after a
// burst and are never called again. In an outage environments decide calls alone.
func TestKnownTraffic(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		random := rand.New(rand.NewPCG(49, 1))
		w := newWorld(t, url, 12)
		at := w.clock.Now().Add(-time.Hour).Add(3 * time.Minute)
		outage := at.Add(15 * time.Minute)
		calls := 1500
		if testing.Short() {
			calls = 700
		}
		for n := 0; n < calls; n++ {
			at = at.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
			e := w.envs[random.IntN(len(w.envs)/2)] // the others are called in bursts alone
			c := randomCall(random, at, n)
			switch down := at.After(outage) && at.Before(outage.Add(2*time.Minute)); {
			case down: // nothing leaves
				c.Degraded, c.Shadow, c.Limit, c.Reason, c.RetryAfter, c.Cause = true, "", "", "", 0, 0
				if random.IntN(2) == 0 {
					c.Cause = cause.Unavailable
				}
				e.record(c)
			case random.IntN(100) == 0: // a burst, then the environment sleeps
				e = w.envs[len(w.envs)/2+random.IntN(len(w.envs)/2)]
				for range 60 {
					at, n = at.Add(time.Duration(random.IntN(6000))*time.Microsecond), n+1
					c.Time, c.Request = at, fmt.Sprintf("request-%d", n)
					e.call(c)
				}
			default:
				e.ride(at)
				e.call(c)
			}
			if n == 600 || n == 1100 {
				w.checkAll()
			}
		}
		w.checkAll()
		for _, e := range w.envs {
			e.end()
		}
		w.checkAll()
		if bare, all := w.noExpiry(); len(bare) > 0 || all < 15 {
			t.Errorf("of %d keys %v have no time to live, want none", all, bare)
		}
	})
}

// checkAll compares what the Reader tells now with the counted calls.
func (w *world) checkAll() {
	w.t.Helper()
	now := w.clock.Now().Add(2 * time.Second)
	w.clock.set(now)
	kolkata, minute := time.FixedZone("", 5*3600+1800), now.Truncate(time.Minute)
	for _, g := range []Range{
		Last(5*time.Minute, time.Minute, now), Last(time.Hour, time.Minute, now),
		Last(24*time.Hour, 15*time.Minute, now), Last(7*24*time.Hour, time.Hour, now),
		Last(30*24*time.Hour, 6*time.Hour, now), day(0, time.Hour, now), day(1, time.Hour, now),
		day(0, 30*time.Minute, now.In(kolkata)), Last(time.Hour, 0, now), Last(24*time.Hour, 0, now),
		{From: minute.Add(-50 * time.Minute), To: minute.Add(-13 * time.Minute)},
	} {
		w.checkRange(g)
	}
	w.checkDenials()
	w.checkStates()
}

// selected returns the counted calls of a range that match.
func (w *world) selected(g Range, match func(*Call) bool) []Call {
	var calls []Call
	for _, c := range w.counted {
		if !c.Time.Before(g.From) && c.Time.Before(g.To) && match(&c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// countsOf is the oracle: it counts calls one by one.
func countsOf(calls []Call) (n Counts) {
	for _, c := range calls {
		switch c.Cause {
		case 0:
			n.Allowed++
			n.Cost += c.Cost
			if c.Shadow != "" {
				n.Shadow++
			}
		case cause.Limit:
			n.Denied++
		default:
			n.Refused++
		}
		if c.Degraded {
			n.Degraded++
		}
		if c.OldSecret {
			n.OldSecret++
		}
	}
	return n
}

func (w *world) checkRange(g Range) {
	w.t.Helper()
	ctx := w.t.Context()
	everyone := func(*Call) bool { return true }
	check := func(what string, match func(*Call) bool, full bool) func(Series, error) {
		return func(s Series, err error) {
			w.t.Helper()
			if err != nil {
				w.t.Fatalf("%s of %v: %v", what, g, err)
			}
			w.checkSeries(what, g, s, match, full)
		}
	}
	check("total", everyone, false)(w.reader.Total(ctx, g))
	check("nobody", func(c *Call) bool { return c.Caller == "" }, true)(w.reader.Nobody(ctx, g))
	for _, route := range []string{"search", "reads"} {
		if g.To.Sub(g.From) > longestFine {
			break // routes are counted by the minute
		}
		check("route "+route, func(c *Call) bool { return slices.Contains(c.Routes, route) }, false)(
			w.reader.Route(ctx, route, g))
	}
	all, err := w.reader.Callers(ctx, trafficCallers, g)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, id := range trafficCallers {
		check(id, func(c *Call) bool { return c.Caller == id }, true)(all[i], nil)
	}
	for _, o := range []Order{Busiest, MostDenied} {
		w.checkRank(g, o)
	}
	w.checkLimits(g)
}

// checkSeries compares a series with the calls that match. full says that its kinds name
// limits and reasons.
func (w *world) checkSeries(what string, g Range, s Series, match func(*Call) bool, full bool) {
	w.t.Helper()
	if s.To.Sub(s.From) > g.To.Sub(g.From) {
		w.t.Errorf("%s of %v: counted %v to %v, want no more than asked for", what, g, s.From, s.To)
	}
	kinds := map[Kind][]int64{}
	for i, p := range s.Points {
		end := s.To
		if i+1 < len(s.Points) {
			end = s.Points[i+1].Start
		}
		calls := w.selected(Range{From: p.Start, To: end}, match)
		if diff := gocmp.Diff(countsOf(calls), p.Counts); diff != "" {
			w.t.Fatalf("%s of %v at %v (-want +got):\n%s", what, g, p.Start, diff)
		}
		if began := w.counted[0].Time.Truncate(time.Minute); p.NotKept != !end.After(began) ||
			s.Began != began {
			w.t.Fatalf("%s at %v: NotKept is %v, the records begin at %v", what, p.Start, p.NotKept, s.Began)
		}
		alone := w.selected(Range{From: p.Start, To: end}, func(c *Call) bool { return c.Degraded })
		if p.AtLeast != (len(alone) > 0) {
			w.t.Fatalf("%s at %v: AtLeast is %v, with %d calls in an outage", what, p.Start, p.AtLeast,
				len(alone))
		}
		for _, c := range calls {
			for _, k := range kindsOf(c, full) {
				if kinds[k] == nil {
					kinds[k] = make([]int64, len(s.Points))
				}
				kinds[k][i]++
			}
		}
	}
	if diff := gocmp.Diff(kinds, s.Kinds); diff != "" {
		w.t.Fatalf("%s of %v, kinds (-want +got):\n%s", what, g, diff)
	}
}

// kindsOf returns the kinds of a call.
func kindsOf(c Call, full bool) []Kind {
	k := Kind{Cause: c.Cause, Limit: c.Limit, Reason: c.Reason}
	if c.Cause == 0 && c.Shadow != "" {
		k = Kind{Cause: cause.Shadow, Limit: c.Shadow}
	}
	if !full {
		k = Kind{Cause: k.Cause}
	}
	if k.Cause == 0 {
		return nil
	}
	return []Kind{k}
}

func (w *world) checkRank(g Range, o Order) {
	w.t.Helper()
	got, err := w.reader.Rank(w.t.Context(), g, o, 20)
	if err != nil {
		w.t.Fatal(err)
	}
	var want []Ranked
	for _, id := range trafficCallers {
		counts := countsOf(w.selected(g, func(c *Call) bool { return c.Caller == id }))
		if o.of(counts) > 0 {
			want = append(want, Ranked{id, counts})
		}
	}
	slices.SortFunc(want, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(o.of(b.Counts), o.of(a.Counts)), cmp.Compare(a.ID, b.ID))
	})
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Fatalf("ranking %c of %v (-want +got):\n%s", o, g, diff)
	}
}

func (w *world) checkLimits(g Range) {
	w.t.Helper()
	s, err := w.reader.Limits(w.t.Context(), g)
	if err != nil {
		w.t.Fatal(err)
	}
	got := s.ByKind()
	counts := map[Kind]int64{}
	limited := func(c *Call) bool { return c.Cause == cause.Limit || c.Cause == 0 && c.Shadow != "" }
	for _, c := range w.selected(g, limited) {
		k := Kind{Cause: cause.Limit, Limit: c.Limit, Plan: c.Plan}
		if c.Cause == 0 {
			k = Kind{Cause: cause.Shadow, Limit: c.Shadow, Plan: c.Plan}
		}
		counts[k]++
	}
	for _, k := range got {
		if counts[k.Kind] != k.Calls {
			w.t.Fatalf("limits of %v: got %+v, want %d calls", g, k, counts[k.Kind])
		}
		delete(counts, k.Kind)
	}
	if len(counts) > 0 {
		w.t.Fatalf("limits of %v: got %v, and %v is missing", g, got, counts)
	}
}
