package simulate

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/web/templates"
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

func simulationForm(s simulation) templates.SimulationForm {
	f := templates.SimulationForm{
		Limit: form.Field(s.Requests), Window: form.Field(s.Window), Unit: form.Field(s.Unit),
		Shape: form.Field(s.shape), Rate: form.Field(s.rate), Windows: form.Field(s.windows),
		Seed: form.Field(s.seed), Minutes: form.Field(s.minutes), Passed: s.passed.Text,
		Units: windowUnits(), Shapes: shapes(),
		Recorded:   s.shape.Text == string(accuracy.Recorded) || s.minutes.Error != "",
		Algorithms: s.choices(), AlgorithmsError: s.algorithmsWrong,
		Bounds: "At most " + page.Number(maxPlayed) + " calls are simulated, with limits up to " +
			page.Number(accuracy.MaxLimit) +
			". No key is affected.",
	}
	return f
}

func shapes() []templates.Option {
	words := map[accuracy.Shape]string{
		accuracy.Boundary: "boundary burst", accuracy.Poisson: "Poisson", accuracy.OnOff: "on/off bursts",
		accuracy.Greedy:   "steady",
		accuracy.Recorded: "recorded minutes",
	}
	var options []templates.Option
	for _, s := range accuracy.Shapes() {
		options = append(options, templates.Option{Value: string(s), Text: words[s]})
	}
	return options
}

func (s *simulation) choices() []templates.Check {
	var checks []templates.Check
	for _, c := range accuracy.Algorithms() {
		check := templates.Check{ID: "algorithm-" + c.Name, Value: c.Name, Text: c.Title, Published: !c.Ours}
		for _, name := range s.algorithms {
			check.Checked = check.Checked || name == c.Name
		}
		checks = append(checks, check)
	}
	return checks
}
