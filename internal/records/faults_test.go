package records

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/testing/valkeytest"
)

// one starts a server with environments.
func one(t *testing.T, environments int) *world {
	t.Helper()
	return newWorld(t, valkeytest.Start(t), environments)
}

func allowed(id string, at time.Time) Call {
	return Call{Caller: id, Registered: true, Cost: 1, Time: at, Plan: "free"}
}

func deniedBy(limit string, c Call) Call {
	c.Cause, c.Limit, c.RetryAfter = cause.Limit, limit, time.Minute
	return c
}

// caller returns the counts of a caller.
func (w *world) caller(id string, g Range) *Series {
	w.t.Helper()
	s, err := w.reader.Caller(w.t.Context(), id, g)
	if err != nil {
		w.t.Fatal(err)
	}
	return &s
}

// A caller who bursts and stops: 60 fast calls, 30 of them denied by the limit per
// address, then silence. Its page tells of it although nothing else is ever called.
func TestBurstThenSilence(t *testing.T) {
	w := one(t, 1)
	at := w.clock.Now()
	for i := range 60 {
		c := allowed("burst", at.Add(time.Duration(i)*7*time.Millisecond))
		if i >= 30 {
			c = deniedBy("30 per minute, each address", c)
		}
		w.envs[0].call(c)
	}
	w.clock.set(at.Add(2 * time.Second))
	s := w.caller("burst", Last(time.Hour, time.Minute, w.clock.Now()))
	if sum := s.Sum(); sum.Allowed != 30 || sum.Calls() < 58 {
		t.Errorf("got %+v, want 60 calls, but for those of the last 20 ms", sum)
	}
	if e := s.Episode(); e.Calls < 28 || !e.Since.Equal(at) {
		t.Errorf("got %+v, want an episode since %v", e, at)
	}
	page, err := w.reader.Denials(t.Context(), DenialQuery{From: at, To: at.Add(time.Minute), Count: 10})
	if err != nil || len(page.Denials) != 1 || page.Denials[0].Calls < 28 {
		t.Errorf("got %+v, %v, want the denials", page, err)
	}
	w.envs[0].end()
	if sum := w.caller("burst", Last(time.Hour, 0, w.clock.Now())).Sum(); sum.Calls() != 60 {
		t.Errorf("got %d calls at the end, want 60", sum.Calls())
	}
}

// A caller's first denial of a kind in a minute leaves at once, whenever the last batch
// left.
func TestFirstDenialLeaves(t *testing.T) {
	w := one(t, 1)
	at := w.clock.Now()
	w.envs[0].call(allowed("first", at))
	w.envs[0].call(allowed("first", at.Add(time.Millisecond)))
	if len(w.envs[0].held) != 1 {
		t.Fatalf("got %d calls held, want the second", len(w.envs[0].held))
	}
	w.envs[0].call(deniedBy("2 per hour", allowed("first", at.Add(2*time.Millisecond))))
	if len(w.envs[0].held) != 0 {
		t.Errorf("got %d calls held, want none after a first denial", len(w.envs[0].held))
	}
	w.envs[0].call(deniedBy("2 per hour", allowed("first", at.Add(3*time.Millisecond))))
	if len(w.envs[0].held) != 1 {
		t.Errorf("got %d calls held, want the second denial", len(w.envs[0].held))
	}
}

// Calls of cost 0 are recorded as 0, a plain count of calls as calls.
func TestCosts(t *testing.T) {
	w := one(t, 1)
	at := w.clock.Now()
	for i, cost := range []int64{0, 0, 0, 7, 1} {
		c := allowed("costs", at.Add(time.Duration(i)*time.Second))
		c.Cost = cost
		w.envs[0].call(c)
	}
	now := w.clock.Now()
	for _, g := range []Range{Last(time.Hour, time.Minute, now), Last(7*24*time.Hour, time.Hour, now)} {
		if sum := w.caller("costs", g); sum.Sum().Allowed != 5 || sum.Sum().Cost != 8 {
			t.Errorf("got %+v, want 5 calls of cost 8", sum.Sum())
		}
	}
}

// A span older than what is kept, or than the records, is not zero: it is not kept.
func TestNotKept(t *testing.T) {
	w := one(t, 1)
	now := w.clock.Now().Add(30 * time.Minute)
	w.envs[0].call(allowed("kept", now))
	for _, g := range []Range{
		{From: now.Add(-80 * time.Hour), To: now.Add(-60 * time.Hour), Step: time.Minute},
		{From: now.Add(-40 * 24 * time.Hour), To: now.Add(-35 * 24 * time.Hour)},
	} {
		if _, err := w.reader.Caller(t.Context(), "kept", g); !errors.Is(err, ErrNotKept) {
			t.Errorf("%v: got error %v, want ErrNotKept", g, err)
		}
	}
	s := w.caller("kept", Last(time.Hour, time.Minute, now))
	if !s.Began.Equal(now) || !s.Points[len(s.Points)-2].NotKept || s.Points[len(s.Points)-1].NotKept ||
		!s.AtLeast() {
		t.Errorf("got a series since %v, want its minutes before %v not kept", s.Began, now)
	}
	if s := w.caller("never", Last(30*24*time.Hour, 24*time.Hour, now)); !s.Points[0].NotKept {
		t.Error("got a day before the first record, want it not kept")
	}
}

// Yesterday is the day in the reader's zone, not the last 24 hours. The last 5 minutes are
// never more than that.
func TestBoundaries(t *testing.T) {
	w := one(t, 1)
	zone := time.FixedZone("", 5*3600+1800)
	now := w.clock.Now().Add(59 * time.Minute).Add(41 * time.Second)
	midnight := time.Date(now.In(zone).Year(), now.In(zone).Month(), now.In(zone).Day(), 0, 0, 0, 0, zone)
	calls := []struct {
		at        time.Time
		yesterday bool
		five      bool
	}{
		{midnight.AddDate(0, 0, -1).Add(-time.Second), false, false},
		{midnight.AddDate(0, 0, -1), true, false},
		{midnight.Add(-time.Second), true, false},
		{midnight, false, false},
		{now.Truncate(time.Minute).Add(-4*time.Minute - time.Second), false, false},
		{now.Truncate(time.Minute).Add(-4 * time.Minute), false, true},
		{now, false, true},
	}
	yesterday, five := int64(0), int64(0)
	for _, c := range calls {
		w.envs[0].call(allowed("bounds", c.at))
		if c.yesterday {
			yesterday++
		}
		if c.five {
			five++
		}
	}
	w.envs[0].end()
	for _, step := range []time.Duration{0, 15 * time.Minute, time.Hour} {
		s := w.caller("bounds", day(1, step, now.In(zone)))
		if got := s.Sum().Calls(); got != yesterday || !s.From.Equal(midnight.AddDate(0, 0, -1)) {
			t.Errorf("yesterday by %s: got %d calls from %v, want %d", step, got, s.From, yesterday)
		}
	}
	if got := w.caller("bounds", Last(5*time.Minute, time.Minute, now)).Sum().Calls(); got != five {
		t.Errorf("last 5 minutes: got %d calls, want %d", got, five)
	}
}

// Each refresh of a page reads a constant number of keys, whatever the range: at most 50
// beside its rows, and at most 14 for a row.
func TestCommandsOfAPage(t *testing.T) {
	w := one(t, 1)
	now := w.clock.Now().Add(17 * time.Minute)
	w.clock.set(now)
	ids := []string{"rows1", "rows2", "rows3"}
	for _, id := range ids {
		w.envs[0].call(deniedBy("1 per hour", allowed(id, now)))
	}
	monitor := valkeytest.StartMonitor(t, w.url)
	reads := func(what string, most int, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if n := len(monitor.Commands()); n > most {
			t.Errorf("%s: got %d commands, want at most %d", what, n, most)
		} else {
			t.Logf("%s: %d commands", what, n)
		}
	}
	ctx := t.Context()
	monitor.Commands()
	for _, g := range []Range{
		Last(5*time.Minute, time.Minute, now), Last(time.Hour, time.Minute, now),
		Last(24*time.Hour, 15*time.Minute, now), Last(7*24*time.Hour, time.Hour, now),
		Last(30*24*time.Hour, 6*time.Hour, now), day(1, 15*time.Minute, now),
	} {
		what := fmt.Sprintf("range of %s", g.To.Sub(g.From))
		reads("chart, "+what, 29, func() error { _, err := w.reader.Total(ctx, g); return err })
		sums := g
		sums.Step = 0
		reads("3 rows, "+what, 3*14, func() error { _, err := w.reader.Callers(ctx, ids, sums); return err })
		reads("ranking and 3 rows, "+what, 16+2+3*14, func() error {
			_, err := w.reader.Rank(ctx, g, Busiest, 10)
			return err
		})
		reads("overview without rows and lists, "+what, 50, func() error {
			_, err := w.reader.Total(ctx, g)
			_, limitsErr := w.reader.Limits(ctx, sums)
			_, _, activeErr := w.reader.ActiveCount(ctx, true)
			return errors.Join(err, limitsErr, activeErr)
		})
	}
	reads("states of 3 rows", 3, func() error { _, err := w.reader.States(ctx, ids); return err })
	reads("list of states", 8, func() error {
		_, err := w.reader.InState(ctx, DeniedNow, true, "", 50)
		return err
	})
	reads("denials and 3 rows", 16+3, func() error {
		_, err := w.reader.Denials(ctx, DenialQuery{From: now.Add(-time.Hour), To: now.Add(time.Minute)})
		return err
	})
}

// The ids of the first 20 requests of a caller, limit and minute are found, whichever
// environments served them. The reference of each denial is.
func TestRequestsAreFound(t *testing.T) {
	w := one(t, 3)
	at := w.clock.Now()
	var calls []Call
	for i := range 57 {
		c := deniedBy("100 per minute, on search", allowed("hammer", at.Add(time.Duration(i)*time.Second)))
		c.Request, c.Routes = fmt.Sprintf("id-%d", i), []string{"search"}
		w.envs[i%3].call(c)
		calls = append(calls, c)
	}
	for i := range 20 {
		d, err := w.reader.Request(t.Context(), fmt.Sprintf("id-%d", i))
		if err != nil || d.Calls != 57 || len(d.Requests) != 20 || d.Route != "search" {
			t.Fatalf("id-%d: got %+v, %v, want 57 calls and 20 ids", i, d, err)
		}
	}
	if _, err := w.reader.Request(t.Context(), "id-56"); !errors.Is(err, ErrNotKept) {
		t.Errorf("got error %v for an id after the first 20, want ErrNotKept", err)
	}
	ref, ok := ParseReference(ReferenceOf(&calls[56]).String())
	if d, err := w.reader.Find(t.Context(), ref); !ok || err != nil || d.Calls != 57 {
		t.Errorf("reference: got %+v, %v, want 57 calls", d, err)
	}
	ref.check++
	if _, err := w.reader.Find(t.Context(), ref); !errors.Is(err, ErrNotKept) {
		t.Errorf("got error %v for another limit's reference, want ErrNotKept", err)
	}
}

// Whatever denies a caller, its own limit, a route's, its group's, its address's or a ban,
// it is in the list and has one state.
func TestStateOfEveryDenier(t *testing.T) {
	w := one(t, 1)
	at := w.clock.Now()
	limits := []string{"60 per 10 seconds", "20 per minute, on search", "200 per minute, each group",
		"100 per minute, each address", "5,000 per second, together"}
	for i, limit := range limits {
		c := allowed(fmt.Sprint("caller", i), at.Add(time.Duration(i)*time.Second))
		w.envs[0].call(deniedBy(limit, c))
	}
	banned := allowed("caller9", at.Add(10*time.Second))
	banned.Cause, banned.RetryAfter = cause.Ban, time.Hour
	w.envs[0].call(banned)
	near := allowed("near", at.Add(11*time.Second))
	near.NearFor = time.Minute
	w.envs[0].call(near)
	w.checkList(DeniedNow, "caller0", "caller1", "caller2", "caller3", "caller4")
	w.checkList(BannedNow, "caller9")
	w.checkList(Near, "near")
	states, err := w.reader.States(t.Context(), []string{"caller3", "caller9", "near"})
	if err != nil {
		t.Fatal(err)
	}
	d, ok := states[0].Now(w.clock.Now())
	if !ok || d.Limit != limits[3] || !d.Until.Equal(at.Add(3*time.Second+time.Minute)) {
		t.Errorf("got %+v, want denied by %s", d, limits[3])
	}
	if d, ok := states[1].Now(w.clock.Now()); !ok || d.Cause != cause.Ban {
		t.Errorf("got %+v, want a ban", d)
	}
	if s := states[2]; len(s.Deniers) > 0 || !s.Near.After(w.clock.Now().Add(time.Minute)) {
		t.Errorf("got %+v, want near a limit for more than a minute", s)
	}
	for _, command := range Ban(w.envs[0].w.writes, "caller9", w.clock.Now(), w.clock.Now()) {
		if err := w.writes.Do(t.Context(), command).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if states, err = w.reader.States(t.Context(), []string{"caller9"}); err != nil {
		t.Fatal(err)
	}
	if d, ok := states[0].Now(w.clock.Now()); ok {
		t.Errorf("got %+v after the ban's end, want nothing", d)
	}
}

// checkList compares a list of states, in pages of 2.
func (w *world) checkList(l List, want ...string) {
	w.t.Helper()
	var got []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page, err := w.reader.InState(w.t.Context(), l, true, cursor, 2)
		if err != nil {
			w.t.Fatal(err)
		}
		got, cursor = append(got, page.IDs...), page.Next
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: got %v, want %v", l, got, want)
	}
}

// Shadow results are of one limit: those of a limit that is saved later begin with it.
func TestShadowByLimit(t *testing.T) {
	w := one(t, 1)
	at := w.clock.Now()
	for i, limit := range []string{"50 per minute, shadow", "50 per minute, shadow",
		"40 per minute, shadow"} {
		c := allowed("trial", at.Add(time.Duration(i)*time.Second))
		c.Shadow = limit
		w.envs[0].call(c)
	}
	now := w.clock.Now()
	for _, g := range []Range{Last(time.Hour, time.Minute, now), Last(24*time.Hour, 0, now)} {
		s := w.caller("trial", g)
		want := []KindCount{{Kind{Cause: cause.Shadow, Limit: "50 per minute, shadow"}, 2},
			{Kind{Cause: cause.Shadow, Limit: "40 per minute, shadow"}, 1}}
		if got := s.ByKind(); !slices.Equal(got, want) || s.Sum().Shadow != 3 || s.Sum().Denied != 0 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
