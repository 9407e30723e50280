package dashboard

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
	limitInput                 // of which requests, window and unit are asked for
	shape, rate, windows, seed input
	minutes                    input // calls of each minute, of the recorded shape
	algorithms                 []string
	algorithmsWrong            string
}

// compared are the algorithms of an address that names none.
var compared = []string{accuracy.Log, accuracy.LogGrouped, accuracy.Counter, accuracy.TokenBucket, accuracy.FixedWindow}

// boundaryAttack is the experiment of an address without any: twice the limit on either
// side of a boundary, then greed.
func boundaryAttack() simulation {
	s := simulation{algorithms: compared}
	for name, in := range s.fields() {
		in.text = map[string]string{
			"limit": "100", "window": "1", "unit": "minute", "shape": string(accuracy.Boundary), "rate": "10", "windows": "4", "seed": "1",
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
	s.requests.text, s.shape.text, s.minutes.text = number(l.Requests), string(accuracy.Recorded), joinCounts(minutes)
	count, unit := limiter.SplitWindow(l.Window)
	s.window.text, s.unit.text = number(count), unit
	return s, true
}

// fields are the parameters of the address that hold one text each.
func (s *simulation) fields() map[string]*input {
	return map[string]*input{
		"limit": &s.requests, "window": &s.window, "unit": &s.unit,
		"shape": &s.shape, "rate": &s.rate, "windows": &s.windows, "seed": &s.seed, "minutes": &s.minutes,
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
		in.text = clip(q.Get(name), maxInput)
		if name == "minutes" {
			in.text = clipList(q.Get(name))
		}
	}
	if q.Has("algorithm") || q.Has("limit") {
		s.algorithms = inOrder(q["algorithm"])
	}
	return s
}

// inOrder returns the names of contenders among these, each once and in the order of the
// lab. An unknown one is left out.
func inOrder(names []string) []string {
	var known []string
	for _, c := range accuracy.Contenders() {
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
		if name != "minutes" || in.text != "" {
			q.Set(name, in.text)
		}
	}
	return q
}

// scenario reads what was typed and notes what is wrong with it.
func (s *simulation) scenario() accuracy.Scenario {
	sc := accuracy.Scenario{
		Limit:      s.requests.whole("Type how many calls are allowed.", 1, accuracy.MaxLimit),
		Window:     s.period(),
		Seed:       uint64(s.seed.whole("Type a number; each gives other random calls.", 0, maxSeed)),
		Contenders: s.algorithms,
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
	if strings.HasPrefix(s.unit.text, calendarPrefix) {
		s.unit.wrong = chooseFromList
		return 0
	}
	window, _ := s.limitInput.period()
	return window
}

func (s *simulation) traffic(seed uint64) accuracy.Traffic {
	shape := accuracy.Shape(s.shape.text)
	if shape == accuracy.Recorded {
		return s.recorded(seed)
	}
	if !slices.Contains(accuracy.Shapes(), shape) {
		s.shape.wrong = chooseFromList
	}
	return accuracy.Traffic{
		Shape:   shape,
		Rate:    s.rate.hundredths(1, 1_000_000),
		Windows: s.windows.whole("Type how many windows to play.", 1, maxPlayed),
	}
}

// recorded plays the minutes that were typed from the first on.
func (s *simulation) recorded(seed uint64) accuracy.Traffic {
	r := s.recording(time.Unix(1_800_000_000, 0))
	if s.minutes.wrong != "" {
		return accuracy.Traffic{}
	}
	t, err := r.Traffic(seed)
	if err != nil || len(t.Calls) > maxPlayed {
		s.minutes.wrong = "These are more than " + number(maxPlayed) + " calls. At most " + number(maxPlayed) + " are played: leave out some minutes."
	}
	return t
}

func (s *simulation) recording(begin time.Time) accuracy.Recording {
	var r accuracy.Recording
	items := s.minutes.list("Type how many calls each minute had, such as 40, 55, 300 x3, 12.", "40, 55, 300 x3, 12", maxPlayedHours*60)
	for _, item := range items {
		calls, err := strconv.ParseInt(item.text, 10, 32)
		if s.minutes.wrong == "" && (err != nil || calls < 0) {
			s.minutes.wrong = "“" + clip(item.text, 20) + "” is no number of calls. Type whole numbers, such as 40, 55, 300 x3, 12."
		}
		if s.minutes.wrong != "" {
			return nil
		}
		for range item.times {
			r = append(r, accuracy.Minute{Begin: begin, Calls: calls})
			begin = begin.Add(time.Minute)
		}
	}
	return r
}

// bound notes when the calls are too many to be played, or when the lab finds something
// else.
func (s *simulation) bound(sc accuracy.Scenario) {
	wrong := &s.windows
	if sc.Traffic.Shape == accuracy.Recorded {
		wrong = &s.minutes
	}
	switch n := sc.Count(); {
	case n > maxPlayed:
		wrong.wrong = "This makes " + number(n) + " calls. At most " + number(maxPlayed) + " are played: lower the windows, the rate or the limit."
	case n == 0:
		wrong.wrong = "This makes no calls."
	case sc.Validate() != nil:
		wrong.wrong = "The lab cannot play so many windows of this length."
	}
}

func (s *simulation) errors() int {
	n := 0
	for _, in := range s.fields() {
		if in.wrong != "" {
			n++
		}
	}
	if s.algorithmsWrong != "" {
		n++
	}
	return n
}

var decimal = regexp.MustCompile(`^[0-9]{1,6}([.,][0-9]{1,2})?$`)

// hundredths returns a number with up to two decimals in hundredths, least to most, and
// notes if it is none.
func (in *input) hundredths(least, most int64) int64 {
	text := strings.TrimSpace(in.text)
	if !decimal.MatchString(text) {
		in.wrong = "Type a number such as 2 or 0.5."
		return 0
	}
	whole, part, _ := strings.Cut(strings.ReplaceAll(text, ",", "."), ".")
	n, _ := strconv.ParseInt(whole+(part + "00")[:2], 10, 64) // digits, by the pattern
	if n < least || n > most {
		in.wrong = "Must be 0.01 to " + number(most/100) + "."
	}
	return n
}
