package limiter

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A call crosses a threshold if the usage is below it before the call and not after. The
// oracle is a list of admitted calls, which gives the usage before and after.
func TestCrossedEqualsListOfCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{Requests: rapid.Int64Range(1, 60).Draw(t, "requests"), Window: time.Hour,
			Notify: drawThresholds(t)}
		limit.Algorithm = rapid.SampledFrom([]Algorithm{Log, FixedWindow}).Draw(t, "algorithm")
		var model Model
		var calls []time.Time // one entry for each unit of cost
		now := time.Unix(1_800_000_000, 0)
		counted := func() (n int64) {
			since := now.Add(-limit.Window)
			if limit.Algorithm == FixedWindow {
				since = now.Truncate(limit.Window).Add(-1)
			}
			for _, at := range calls {
				if at.After(since) {
					n++
				}
			}
			return n
		}
		for range 80 {
			now = now.Add(time.Duration(rapid.Int64Range(0, 20).Draw(t, "minutes")) * time.Minute)
			cost := min(limit.Requests, rapid.Int64Range(1, 9).Draw(t, "cost"))
			before := counted()
			d, err := model.Take(now, []Limit{limit}, cost)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				continue
			}
			for range cost {
				calls = append(calls, now)
			}
			var want []int
			for _, percent := range limit.Notify.Percents() {
				below := 100*before < int64(percent)*limit.Requests
				if below && 100*counted() >= int64(percent)*limit.Requests {
					want = append(want, percent)
				}
			}
			if got := d.Limits[0].Crossed(cost); !slices.Equal(got, want) {
				t.Fatalf("%d + %d of %s: got crossed %v, want %v", before, cost, limit, got, want)
			}
		}
	})
}

// For any list of limits, Crossed returns the thresholds between the usage of a Peek just
// before the call and the usage after it. For a log with grouped slots it may include
// thresholds that were crossed before, but misses none.
func TestCrossedEqualsPeekBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		for i := range limits {
			limits[i].Notify, limits[i].CountDenied = drawThresholds(t), false
		}
		var model Model
		now := time.Unix(1_800_000_000, 0)
		for range 60 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*limits[0].Span())).Draw(t, "pause")))
			cost := rapid.Int64Range(1, smallest(limits)).Draw(t, "cost")
			before := model.Peek(now, limits)
			after, err := model.Take(now, limits, cost)
			if err != nil {
				t.Fatal(err)
			}
			for i, u := range after.Limits {
				if !after.Allowed {
					break
				}
				want, got := u.Limit.reached(before.Limits[i].Used(), u.Used()), u.Crossed(cost)
				missed := slices.ContainsFunc(want, func(p int) bool { return !slices.Contains(got, p) })
				if missed || u.Limit.slack() == 0 && len(got) != len(want) {
					t.Fatalf("%s: used %d, then %d: got crossed %v, want %v", u.Limit,
						before.Limits[i].Used(), u.Used(), got, want)
				}
			}
		}
	})
}

func smallest(limits []Limit) int64 {
	least := limits[0].Requests
	for _, l := range limits {
		least = min(least, l.Requests)
	}
	return least
}

func drawThresholds(t *rapid.T) Thresholds {
	percents := rapid.SliceOfNDistinct(rapid.IntRange(1, 100), 0, MaxThresholds, rapid.ID).Draw(t, "notify")
	slices.Sort(percents)
	return NewThresholds(percents)
}

// Limit.Errors reports thresholds that are out of order or out of bounds, and thresholds
// of a limit that counts denied calls or has a short window.
func TestNotifyErrors(t *testing.T) {
	day := Limit{Requests: 100, Window: 24 * time.Hour}
	with := func(l Limit, percents ...int) Limit {
		l.Notify = NewThresholds(percents)
		return l
	}
	attempts := day
	attempts.CountDenied = true
	short := Limit{Requests: 100, Window: time.Minute - time.Millisecond}
	for text, limits := range map[string][]Limit{
		"": {day, with(day, 1), with(day, 50, 80, 100), with(day, 1, 2, 3, 4, 5), with(Limit{Requests: 1,
			Algorithm: FixedWindow, Calendar: Minute}, 100),
			with(Limit{Requests: 9, Window: time.Minute}, 50)},
		"ascending order": {with(day, 0), with(day, 101), with(day, -1), with(day, 356), with(day, 80, 50),
			with(day, 50, 50), with(day, 0, 50), with(day, 1, 2, 3, 4, 5, 6)},
		"denied calls count": {with(attempts, 80)},
		"at least 1 minute":  {with(short, 80)},
	} {
		for _, l := range limits {
			errs := l.Errors()
			if text == "" && len(errs) > 0 || text != "" && (len(errs) != 1 || errs[0].Field != "notify" ||
				!strings.Contains(errs[0].Message, text)) {
				t.Errorf("%v: got errors %v, want one of notify with %q", l.Notify, errs, text)
			}
		}
	}
}

// Thresholds are at the end of a program, where scripts ignore them.
func TestThresholdsInProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := drawLimits(t)
		limits[0].CountDenied, limits[0].Notify = false, NewThresholds([]int{50, 100})
		if limits[0].Span() < MinNotifyWindow {
			return
		}
		plain, err := Compile(withoutThresholds(limits), time.Unix(1_800_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		program, err := Compile(limits, time.Unix(1_800_000_000, 0))
		if err != nil || !strings.HasPrefix(string(program), string(plain)) {
			t.Fatalf("got program %q, %v, want one that begins with %q", program, err, plain)
		}
		if read, err := program.Limits(); err != nil || !slices.Equal(read, limits) {
			t.Fatalf("got %+v, %v; want %+v", read, err, limits)
		}
	})
}

func withoutThresholds(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Notify = Thresholds{}
	}
	return limits
}
