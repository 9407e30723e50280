package simulate

import (
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// Recorded is the query of the page that plays the calls somebody made minute by minute
// to a limit; passed of them passed. It is empty if there are none, too many, or the
// limit cannot be played.
func Recorded(l limiter.Limit, minutes []int64, passed int64) string {
	if total := chart.Total(minutes); total == 0 || total > maxPlayed {
		return ""
	}
	s, ok := recordedSimulation(l, minutes)
	if !ok {
		return ""
	}
	s.passed.Text = strconv.FormatInt(passed, 10)
	return s.values().Encode()
}

// recordedSimulation plays the calls that somebody made minute by minute, the oldest
// first, to a limit. It is not ok for a limit that the lab does not know: a calendar's,
// or one beyond its bound.
func recordedSimulation(l limiter.Limit, minutes []int64) (s simulation, ok bool) {
	if l.Calendar != limiter.NoCalendar || l.Requests > accuracy.MaxLimit {
		return simulation{}, false
	}
	s = boundaryAttack()
	s.Requests.Text, s.shape.Text, s.minutes.Text = page.Number(l.Requests), string(accuracy.Recorded),
		form.JoinCounts(minutes)
	count, unit := limiter.SplitWindow(l.Window)
	s.Window.Text, s.Unit.Text = page.Number(count), unit
	return s, true
}

// recorded plays the minutes that were typed from the first on.
func (s *simulation) recorded(seed uint64) accuracy.Traffic {
	r := s.recording(time.Unix(1_800_000_000, 0))
	if s.minutes.Error != "" {
		return accuracy.Traffic{}
	}
	t, err := r.Traffic(seed)
	if err != nil || len(t.Calls) > maxPlayed {
		s.minutes.Error = "These are more than " + page.Number(maxPlayed) + " calls. At most " +
			page.Number(maxPlayed) + " are simulated. Leave out some minutes."
	}
	return t
}

func (s *simulation) recording(begin time.Time) accuracy.Recording {
	var r accuracy.Recording
	items := s.minutes.List(
		"Enter the calls of each minute, such as 40, 55, 300 x3, 12.", "40, 55, 300 x3, 12",
		maxPlayedHours*60,
	)
	for _, item := range items {
		calls, err := strconv.ParseInt(item.Text, 10, 32)
		if s.minutes.Error == "" && (err != nil || calls < 0) {
			s.minutes.Error = "“" + page.Clip(item.Text, 20) +
				"” is no number of calls. Type whole numbers, such as 40, 55, 300 x3, 12."
		}
		if s.minutes.Error != "" {
			return nil
		}
		for range item.Times {
			r = append(r, accuracy.Minute{Begin: begin, Calls: calls})
			begin = begin.Add(time.Minute)
		}
	}
	return r
}
