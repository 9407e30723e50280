package simulate

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

const (
	maxPlayed      = 50_000 // calls of one simulation: about 10 ms for each algorithm
	maxPlayedHours = 24     // of recorded traffic
	maxSeed        = 999_999_999
	plotPoints     = 240
)

// simulation is an experiment of the accuracy lab as it was typed. All of it is in the
// address.
type simulation struct {
	form.LimitInput            // of which requests, window and unit are asked for
	shape, rate, windows, seed form.Input
	minutes                    form.Input // calls of each minute, of the recorded shape
	passed                     form.Input // how many of them passed in fact; empty when nobody knows
	algorithms                 []string
	algorithmsWrong            string
}

// compared are the algorithms of an address that names none.
var compared = []string{accuracy.Log, accuracy.LogGrouped, accuracy.Counter, accuracy.TokenBucket,
	accuracy.FixedWindow}

// boundaryAttack is the experiment of an address without any: twice the limit on either
// side of a boundary, then greed.
func boundaryAttack() simulation {
	s := simulation{algorithms: compared}
	for name, in := range s.fields() {
		in.Text = map[string]string{
			"limit": "100", "window": "1", "unit": "minute", "shape": string(accuracy.Boundary), "rate": "10",
			"windows": "4", "seed": "1",
		}[name]
	}
	return s
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

// fields are the parameters of the address that hold one text each.
func (s *simulation) fields() map[string]*form.Input {
	return map[string]*form.Input{
		"limit": &s.Requests, "window": &s.Window, "unit": &s.Unit,
		"shape": &s.shape, "rate": &s.rate, "windows": &s.windows, "seed": &s.seed, "minutes": &s.minutes,
		"passed": &s.passed,
	}
}

// readSimulation takes what the address leaves out from the boundary attack. A form
// always sends a limit; without an algorithm it chose none.
func readSimulation(q url.Values) simulation {
	s := boundaryAttack()
	for name, in := range s.fields() {
		if !q.Has(name) {
			continue
		}
		in.Text = page.Clip(q.Get(name), form.MaxInput)
		if name == "minutes" {
			in.Text = form.ClipList(q.Get(name))
		}
	}
	if q.Has("algorithm") || q.Has("limit") {
		s.algorithms = inOrder(q["algorithm"])
	}
	return s
}

// inOrder returns the names of algorithms among these, each once and in the order of the
// lab. An unknown one is left out.
func inOrder(names []string) []string {
	var known []string
	for _, c := range accuracy.Algorithms() {
		if slices.Contains(names, c.Name) {
			known = append(known, c.Name)
		}
	}
	return known
}

// values is the inverse of readSimulation.
func (s *simulation) values() url.Values {
	q := url.Values{"algorithm": s.algorithms}
	for name, in := range s.fields() {
		if in.Text != "" || name != "minutes" && name != "passed" {
			q.Set(name, in.Text)
		}
	}
	return q
}

// scenario reads what was typed and notes what is wrong with it.
func (s *simulation) scenario() accuracy.Scenario {
	sc := accuracy.Scenario{
		Limit:      s.Requests.Whole("Enter the number of calls.", 1, accuracy.MaxLimit),
		Window:     s.period(),
		Seed:       uint64(s.seed.Whole("Enter a number. It seeds the random calls.", 0, maxSeed)),
		Algorithms: s.algorithms,
		Points:     plotPoints,
	}
	if len(s.algorithms) == 0 {
		s.algorithmsWrong = "Choose at least one algorithm."
	}
	sc.Traffic = s.traffic(sc.Seed)
	if s.errors() == 0 {
		s.bound(sc)
	}
	return sc
}

// period reads the window, which has no calendar here.
func (s *simulation) period() time.Duration {
	if strings.HasPrefix(s.Unit.Text, form.CalendarPrefix) {
		s.Unit.Error = form.ChooseFromList
		return 0
	}
	window, _ := s.Period()
	return window
}

func (s *simulation) traffic(seed uint64) accuracy.Traffic {
	shape := accuracy.Shape(s.shape.Text)
	if shape == accuracy.Recorded {
		return s.recorded(seed)
	}
	if !slices.Contains(accuracy.Shapes(), shape) {
		s.shape.Error = form.ChooseFromList
	}
	return accuracy.Traffic{
		Shape:   shape,
		Rate:    s.rate.Hundredths(1, 1_000_000),
		Windows: s.windows.Whole("Enter how many windows to simulate.", 1, maxPlayed),
	}
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

// bound notes when the calls are too many to be played, or when the lab finds something
// else.
func (s *simulation) bound(sc accuracy.Scenario) {
	field := &s.windows
	if sc.Traffic.Shape == accuracy.Recorded {
		field = &s.minutes
	}
	switch n := sc.Count(); {
	case n > maxPlayed:
		field.Error = "This makes " + page.Number(n) + " calls. At most " +
			page.Number(maxPlayed) + " are simulated. Lower windows, rate or limit."
	case n == 0:
		field.Error = "This makes no calls."
	case sc.Validate() != nil:
		field.Error = "Too many windows of this length."
	}
}

func (s *simulation) errors() int {
	n := 0
	for _, in := range s.fields() {
		if in.Error != "" {
			n++
		}
	}
	if s.algorithmsWrong != "" {
		n++
	}
	return n
}
