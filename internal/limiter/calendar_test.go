package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/histories"
	"tidegate/internal/testing/zones"
)

// No day in the years to come has an hour without a limit: wherever the clocks are moved,
// at most twice the limit passes within the two days around it that make three windows at
// most.
func TestNoCalendarDayIsUnlimited(t *testing.T) {
	const requests = 3
	for _, name := range zones.Names[:histories.N(len(zones.Names))] {
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
				t.Errorf("%s admits %d calls within 24 h of %s, of %d a day", name, admitted, shift, requests)
			}
		}
	}
}

// shiftsOfYears yields the shifts of a zone.
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

// The script finds the same calendar windows as the model, in all zones and at all times.
func TestScriptKnowsTheCalendar(t *testing.T) {
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
				s.fail(t, "model %+v, %v", want, err)
			}
			s.now = at
		}
	})
}

// Releases from before weeks and years find no section of such a limit's number, and
// refuse the program before they change a state.
func TestLaterPeriodsAreMarked(t *testing.T) {
	for _, calendar := range Calendars() {
		limits := []Limit{
			{Requests: 9, Window: time.Hour},
			{Requests: 5, Algorithm: FixedWindow, Calendar: calendar},
		}
		p, err := Compile(limits, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		number := &p[4+2*sectionLen+limitLen+4]
		if later := calendar == Week || calendar == Year; later != (*number > p[3]) {
			t.Errorf("%s: section %d of %d", calendar, *number, p[3])
		}
		if got, err := p.Limits(); err != nil || fmt.Sprint(got) != fmt.Sprint(limits) {
			t.Errorf("%s: %v, %v", calendar, got, err)
		}
		*number ^= laterMark
		if got, err := p.Limits(); err == nil {
			t.Errorf("%s with the wrong mark is read as %v", calendar, got)
		}
	}
}
