// Package simulate serves the pages that simulate limits: a comparison of algorithms on
// generated or recorded traffic, and the decisions on calls at given times. Package
// dashboard mounts it. It reads nothing from Valkey and changes nothing.
package simulate

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// pages serves the pages of simulations.
type pages struct {
	*page.Renderer
	log *slog.Logger
}

// Routes returns the pages; r renders them.
func Routes(r *page.Renderer, log *slog.Logger) []auth.Route {
	d := &pages{Renderer: r, log: log}
	return []auth.Route{
		{Pattern: "GET /simulate", Role: auth.Viewer, Handle: d.showSimulation},
		{Pattern: "GET /simulate/calls", Role: auth.Viewer, Handle: d.showCalls},
	}
}

// showSimulation runs the simulation in the address.
func (d *pages) showSimulation(w http.ResponseWriter, r *http.Request) error {
	s := readSimulation(r.URL.Query())
	scenario := s.scenario()
	if s.errorCount() > 0 {
		return d.Render(w, r, http.StatusUnprocessableEntity, templates.Simulate(d.simulatePage(r, s)))
	}
	result, err := accuracy.Run(scenario)
	if err != nil {
		d.log.Error("simulate", "cause", err)
		return page.Problem{Status: http.StatusInternalServerError}
	}
	p := d.simulatePage(r, s)
	p.Result = resultView(result, s.passed.Text)
	return d.Render(w, r, http.StatusOK, templates.Simulate(p))
}

func (d *pages) simulatePage(r *http.Request, s simulation) templates.SimulatePage {
	p := templates.SimulatePage{
		Page:    d.Page(r, "Simulate"),
		Tabs:    d.simulateTabs(false),
		Presets: d.presetLinks(s),
		Form:    s.view(),
		Errors:  s.errorCount(),
	}
	p.Form.Action = d.Path("/simulate")
	p.Page.Chart = d.ChartScript()
	return p
}

// simulateTabs links to the two pages.
func (d *pages) simulateTabs(calls bool) []templates.Choice {
	return []templates.Choice{
		{Text: "Compare algorithms", Address: d.Path("/simulate"), Current: !calls},
		{Text: "Try calls", Address: d.Path("/simulate/calls"), Current: calls},
	}
}

const (
	maxRecorded = 24 * 60 // minutes of recorded traffic
	maxSeed     = 999_999_999
	plotPoints  = 240 // points of a line in the chart
)

// simulation is a scenario of package accuracy as the user typed it. The address contains
// all of it.
type simulation struct {
	limit                      form.Input // as in a sandbox; the algorithms do not matter
	shape, rate, windows, seed form.Input
	minutes                    form.Input // calls of each minute, for recorded traffic
	passed                     form.Input // number of recorded calls that were allowed; empty if unknown
	algorithms                 []string
	algorithmsError            string
}

// defaultAlgorithms are the algorithms of an address without fields.
var defaultAlgorithms = []string{accuracy.Log, accuracy.LogGrouped, accuracy.Counter, accuracy.TokenBucket,
	accuracy.FixedWindow}

// fields returns the inputs by their names in the address.
func (s *simulation) fields() map[string]*form.Input {
	return map[string]*form.Input{
		"limit": &s.limit,
		"shape": &s.shape, "rate": &s.rate, "windows": &s.windows, "seed": &s.seed, "minutes": &s.minutes,
		"passed": &s.passed,
	}
}

// readSimulation reads the simulation in an address. Missing fields are those of
// boundaryAttack. An address with a limit comes from the form, so if it has no algorithm,
// the user chose none.
func readSimulation(q url.Values) simulation {
	s := boundaryAttack()
	for name, in := range s.fields() {
		if !q.Has(name) {
			continue
		}
		in.Text = page.Clip(q.Get(name), form.MaxInput)
		if name == "limit" {
			*in = form.Typed(q, name, maxLimitsText)
		}
		if name == "minutes" {
			in.Text = form.ClipList(q.Get(name))
		}
	}
	if q.Has("algorithm") || q.Has("limit") {
		s.algorithms = knownAlgorithms(q["algorithm"])
	}
	return s
}

// knownAlgorithms returns the known algorithms among names, each once and in the order of
// package accuracy.
func knownAlgorithms(names []string) []string {
	var known []string
	for _, c := range accuracy.Algorithms() {
		if slices.Contains(names, c.Name) {
			known = append(known, c.Name)
		}
	}
	return known
}

// values returns the query that readSimulation reads as s.
func (s *simulation) values() url.Values {
	q := url.Values{"algorithm": s.algorithms}
	for name, in := range s.fields() {
		if in.Text != "" || name != "minutes" && name != "passed" {
			q.Set(name, in.Text)
		}
	}
	return q
}

// scenario returns the typed scenario and sets the errors of the fields.
func (s *simulation) scenario() accuracy.Scenario {
	var limits []accuracy.Limit
	for _, l := range s.limit.Limits() {
		switch {
		case l.Calendar != limiter.NoCalendar:
			s.limit.Error = "Enter a limit without a calendar."
		case l.Shadow:
			s.limit.Error = "A limit in shadow mode denies nothing. Remove it."
		case l.Requests > accuracy.MaxLimit:
			s.limit.Error = "Enter a limit of at most " + page.Number(accuracy.MaxLimit) + " calls."
		}
		limits = append(limits, accuracy.Limit{Limit: l.Requests, Window: l.Window})
	}
	if s.limit.Error != "" {
		limits = make([]accuracy.Limit, 1)
	}
	sc := accuracy.Scenario{
		Limit:      limits[0].Limit,
		Window:     limits[0].Window,
		Beside:     limits[1:],
		Seed:       uint64(s.seed.Whole("Enter a number to seed the random calls.", 0, maxSeed)),
		Algorithms: s.algorithms,
		Points:     plotPoints,
	}
	if len(s.algorithms) == 0 {
		s.algorithmsError = "Choose at least one algorithm."
	}
	sc.Traffic = s.traffic(sc.Seed)
	if s.errorCount() == 0 {
		s.checkBounds(sc)
	}
	return sc
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
		Windows: s.windows.Whole("Enter how many windows to simulate.", 1, accuracy.MaxPlayed),
	}
}

// checkBounds sets an error if the scenario makes no calls or too many.
func (s *simulation) checkBounds(sc accuracy.Scenario) {
	field := &s.windows
	if sc.Traffic.Shape == accuracy.Recorded {
		field = &s.minutes
	}
	switch n := sc.Count(); {
	case n > accuracy.MaxPlayed:
		field.Error = "This makes " + page.Number(n) + " calls. At most " +
			page.Number(accuracy.MaxPlayed) + " are simulated. Lower windows, rate or limit."
	case n == 0:
		field.Error = "This makes no calls."
	case sc.Validate() != nil:
		field.Error = "Too many windows of this length. Lower one of the two."
	}
}

func (s *simulation) errorCount() int {
	n := countErrors(s.fields())
	if s.algorithmsError != "" {
		n++
	}
	return n
}

func countErrors(fields map[string]*form.Input) int {
	n := 0
	for _, in := range fields {
		n += form.CountErrors(*in)
	}
	return n
}

func (s *simulation) view() templates.SimulationForm {
	return templates.SimulationForm{
		Limit: form.Field(s.limit), Samples: form.LimitSamples(),
		Shape: form.Field(s.shape), Rate: form.Field(s.rate), Windows: form.Field(s.windows),
		Seed: form.Field(s.seed), Minutes: form.Field(s.minutes), Passed: s.passed.Text,
		Shapes:     shapeOptions(),
		Recorded:   s.shape.Text == string(accuracy.Recorded) || s.minutes.Error != "",
		Algorithms: s.algorithmChecks(), AlgorithmsError: s.algorithmsError,
		Bounds: "At most " + page.Number(accuracy.MaxPlayed) + " calls are simulated, with limits up to " +
			page.Number(accuracy.MaxLimit) + ". No key is affected.",
	}
}

func shapeOptions() []templates.Option {
	texts := map[accuracy.Shape]string{
		accuracy.Boundary: "boundary burst", accuracy.Poisson: "Poisson", accuracy.OnOff: "on/off bursts",
		accuracy.Greedy: "steady", accuracy.Recorded: "recorded minutes",
	}
	var options []templates.Option
	for _, s := range accuracy.Shapes() {
		options = append(options, templates.Option{Value: string(s), Text: texts[s]})
	}
	return options
}

func (s *simulation) algorithmChecks() []templates.Check {
	var checks []templates.Check
	for _, c := range accuracy.Algorithms() {
		checks = append(checks, templates.Check{ID: "algorithm-" + c.Name, Value: c.Name, Text: c.Title,
			Checked: slices.Contains(s.algorithms, c.Name)})
	}
	return checks
}

// recorded returns the traffic of the typed minutes.
func (s *simulation) recorded(seed uint64) accuracy.Traffic {
	r := s.recording(time.Unix(1_800_000_000, 0))
	if s.minutes.Error != "" {
		return accuracy.Traffic{}
	}
	t, err := r.Traffic(seed)
	if err != nil || len(t.Calls) > accuracy.MaxPlayed {
		s.minutes.Error = "More than " + page.Number(accuracy.MaxPlayed) +
			" calls, the maximum. Remove some minutes."
	}
	return t
}

// recording returns the typed minutes. begin is the start of the first.
func (s *simulation) recording(begin time.Time) accuracy.Recording {
	var r accuracy.Recording
	items := s.minutes.List(
		"Enter the calls of each minute, such as 40, 55, 300 x3, 12.", "40, 55, 300 x3, 12",
		maxRecorded,
	)
	for _, item := range items {
		calls, err := strconv.ParseInt(item.Text, 10, 32)
		if s.minutes.Error == "" && (err != nil || calls < 0) {
			s.minutes.Error = "“" + page.Clip(item.Text, 20) +
				"” is not a number of calls. Enter whole numbers such as 40, 55, 300 x3, 12."
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
