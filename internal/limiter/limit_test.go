package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/zones"
)

// Around every change of a zone's offset from 2026 to 2028, a calendar day's limit holds:
// in the 48 hours around the change, which touch at most three days, at most three times
// the limit is admitted.
func TestNoCalendarDayIsUnlimited(t *testing.T) {
	const requests = 3
	for _, name := range zones.Names[:tier.Histories(len(zones.Names))] {
		limits := []Limit{{Requests: requests, Algorithm: FixedWindow, Calendar: Day, Zone: name}}
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for shift := range shiftsOfYears(location, 2026, 2029) {
			var m Model
			admitted := 0
			for at := shift.Add(-24 * time.Hour); at.Before(shift.Add(24 * time.Hour)); at =
				at.Add(7 * time.Minute) {
				d, err := m.Take(at, limits, 1)
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
			}
			if admitted > 3*requests {
				t.Errorf("%s: got %d calls admitted within 24 h of %s, want at most %d", name, admitted,
					shift, 3*requests)
			}
		}
	}
}

// shiftsOfYears yields the changes of a zone's offset from the year first to before last.
func shiftsOfYears(location *time.Location, first, last int) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for at := time.Date(first, 1, 1, 0, 0, 0, 0, location); at.Year() < last; {
			_, end := at.ZoneBounds()
			if end.IsZero() || !yield(end) {
				return
			}
			at = end
		}
	}
}

// The script computes the same calendar windows as the model, for random zones and times.
func TestScriptCalendarEqualsModel(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		at, period := zones.Instant(r), Calendars()[r.IntN(len(Calendars()))]
		s := clock.subject(Limit{Requests: 2, Algorithm: FixedWindow, Calendar: period,
			Zone: at.Location().String()})
		s.now = at.Add(-time.Duration(rapid.Int64Range(0, int64(period.Longest())).Draw(t,
			"before")).Truncate(time.Microsecond))
		var model Model
		for range 3 {
			want, err := model.Take(s.now, s.limits, 1)
			if got := s.do(t, 1); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				s.fail(t, "got %+v, want %+v, %v", got, want, err)
			}
			s.now = at
		}
	})
}

// RedundantLimits returns each redundant limit with the one that implies it. Of two equal
// limits, the first is redundant.
func TestRedundantLimits(t *testing.T) {
	per := func(n int64, w time.Duration) Limit { return Limit{Requests: n, Window: w} }
	bucket := Limit{Requests: 10, Window: time.Second, Algorithm: TokenBucket}
	daily := Limit{Requests: 1000, Algorithm: FixedWindow, Calendar: Day}
	attempts := Limit{Requests: 100, Window: 10 * time.Second, CountDenied: true}
	for name, row := range map[string]struct {
		limits []Limit
		want   []Redundant
	}{
		"no limits":             {nil, nil},
		"both can deny":         {[]Limit{per(10, time.Second), per(1000, time.Hour)}, nil},
		"a longer one":          {[]Limit{per(10, time.Second), per(600, time.Minute)}, []Redundant{{1, 0}}},
		"one call fewer":        {[]Limit{per(10, time.Second), per(599, time.Minute)}, nil},
		"a shorter one":         {[]Limit{per(100, time.Second), per(50, time.Hour)}, []Redundant{{0, 1}}},
		"equal":                 {[]Limit{per(5, time.Minute), per(5, time.Minute)}, []Redundant{{0, 1}}},
		"a burst on either end": {[]Limit{bucket, per(100, 10*time.Second)}, nil},
		"above the bursts":      {[]Limit{bucket, per(110, 10*time.Second)}, []Redundant{{1, 0}}},
		"a calendar day":        {[]Limit{per(40, time.Hour), daily}, []Redundant{{1, 0}}},
		"a day of 25 hours":     {[]Limit{per(41, time.Hour), daily}, nil},
		"denied calls count":    {[]Limit{per(1, time.Second), attempts}, nil},
		"beyond every bound": {[]Limit{per(MaxRequests, time.Millisecond),
			per(MaxRequests, MaxWindow)}, nil},
	} {
		if got := RedundantLimits(row.limits); !slices.Equal(got, row.want) {
			t.Errorf("%s: got %v, want %v", name, got, row.want)
		}
	}
}

// A redundant limit changes no decision on random calls.
func TestRedundantLimitNeverDenies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limit := func() Limit {
		l := Limit{Requests: 1 + random.Int64N(200), Window: time.Duration(1+random.IntN(20)) * time.Second,
			Algorithm: Algorithm(random.IntN(len(Algorithms())))}
		if l.Algorithm == Log && random.IntN(3) == 0 && l.Requests > MinSlots {
			l.Slots = MinSlots
		}
		return l
	}
	tried := 0
	for range tier.Histories(4000) {
		limits := []Limit{limit(), limit()}
		for _, m := range RedundantLimits(limits) {
			tried++
			var alone, both Model
			at := time.Unix(1_800_000_000, 0)
			for range 300 {
				at = at.Add(time.Duration(random.ExpFloat64() * 0.3 * float64(time.Second)))
				want, _ := alone.Take(at, limits[m.By:m.By+1], 1)
				got, _ := both.Take(at, limits, 1)
				if got.Allowed != want.Allowed {
					t.Fatalf("%+v with %+v: got allowed %t, want %t", limits[m.Limit], limits[m.By],
						got.Allowed, want.Allowed)
				}
			}
		}
	}
	if tried < tier.Histories(100) {
		t.Errorf("got %d redundant limits, want at least %d", tried, tier.Histories(100))
	}
}
