package simulate

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// showSimulation plays what the address describes to the algorithms that it names. It
// reads no key and no usage.
func (d *pages) showSimulation(w http.ResponseWriter, r *http.Request) {
	form := readSimulation(r.URL.Query())
	scenario := form.scenario()
	if n := form.errors(); n > 0 {
		d.Render(w, r, http.StatusUnprocessableEntity, templates.Simulate(d.simulatePage(r, form)))
		return
	}
	result, err := accuracy.Run(scenario)
	if err != nil {
		d.log.Error("simulate", "cause", err)
		d.Fail(w, r, page.Problem{Status: http.StatusInternalServerError})
		return
	}
	page := d.simulatePage(r, form)
	page.Result = simulated(result, form.passed.Text)
	d.Render(w, r, http.StatusOK, templates.Simulate(page))
}

func (d *pages) simulatePage(r *http.Request, s simulation) templates.SimulatePage {
	p := templates.SimulatePage{
		Page:    d.Page(r, "Simulate"),
		Tabs:    d.simulateTabs(false),
		Presets: d.presetLinks(s),
		Form:    simulationForm(s),
		Errors:  s.errors(),
	}
	p.Form.Action = d.Path("/simulate")
	p.Page.Chart = d.ChartScript()
	return p
}

// simulateTabs link the two parts of the lab.
func (d *pages) simulateTabs(calls bool) []templates.Choice {
	return []templates.Choice{
		{Text: "Compare algorithms", Address: d.Path("/simulate"), Current: !calls},
		{Text: "Try calls", Address: d.Path("/simulate/calls"), Current: calls},
	}
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

// simulated puts what the lab measured into words. passed is how many of the calls passed
// in fact, as text; anything but a number is unknown.
func simulated(r accuracy.Result, passed string) *templates.Simulation {
	limit := r.Scenario.Limit
	s := &templates.Simulation{
		Verdict: verdict(r, passed),
		Traffic: shapeNotes[r.Scenario.Traffic.Shape], Chart: simulationChart(r),
	}
	for _, o := range r.Outcomes {
		row := templates.SimulationRow{
			Series:       seriesOf(o.Name),
			Algorithm:    o.Title,
			Admitted:     page.Number(o.Admitted),
			FalseAllows:  page.Number(o.FalseAllows),
			FalseDenials: page.Number(o.FalseDenials),
			Worst:        page.Number(o.Worst),
			Over:         overLimit(o.Worst, limit),
			At:           "nothing admitted",
			Level:        "kept",
		}
		if o.Worst > 0 {
			row.At = page.Offset(time.Duration(o.WorstAt-r.From) * time.Microsecond)
		}
		if o.Worst > limit {
			row.Level = "broken"
		}
		s.Rows = append(s.Rows, row)
		s.Notes = append(s.Notes, templates.AlgorithmNote{Title: o.Title, Text: algorithmNotes[o.Name],
			Source: o.Source})
	}
	return s
}

// verdict says what the limit would do, as its exact log has it.
func verdict(r accuracy.Result, passed string) string {
	limit := policydoc.Rate(limiter.Limit{Requests: r.Scenario.Limit, Window: r.Scenario.Window})
	of := page.Number(r.Exact.Admitted) + " of " + page.Number(r.Calls) + " calls pass"
	if r.Scenario.Traffic.Shape != accuracy.Recorded {
		return limit + " would let " + of + "."
	}
	words := limit + " would have let " + of
	if n, err := strconv.ParseInt(passed, 10, 64); err == nil && n >= 0 {
		words += "; today " + page.Number(n) + " passed"
	}
	return words + "."
}

// overLimit is how far a rolling window is over the limit, rounded up so that only what
// is not shows as 0.
func overLimit(worst, limit int64) string {
	if worst <= limit {
		return "0 %"
	}
	tenths := (1000*(worst-limit) + limit - 1) / limit
	if tenths%10 == 0 {
		return "+" + page.Number(tenths/10) + " %"
	}
	return "+" + page.Number(tenths/10) + "." + strconv.FormatInt(tenths%10, 10) + " %"
}

// preset is an experiment worth a look.
type preset struct{ text, query string }

var presets = []preset{
	{"Boundary burst", ""},
	{"Twice the limit", "limit=100&shape=poisson&rate=2&windows=20"},
	{"At the limit", "limit=100&shape=poisson&rate=1&windows=20"},
	{"On/off bursts", "limit=100&shape=on-off&rate=10&windows=20"},
	{"Steady", "limit=100&shape=greedy&rate=2&windows=6"},
	{"Large limit", "limit=5000&shape=poisson&rate=1.5&windows=6"},
	{"A recorded spike", "limit=100&shape=recorded&minutes=40,55,60,48,190x2,70,52,45x3,240,12"},
}

func (p preset) simulation() simulation {
	q, _ := url.ParseQuery(p.query)
	if len(q) > 0 {
		q["algorithm"] = compared
	}
	return readSimulation(q)
}

func (d *pages) presetLinks(shown simulation) []templates.Choice {
	var links []templates.Choice
	for _, p := range presets {
		s := p.simulation()
		query := s.values().Encode()
		links = append(links, templates.Choice{
			Text: p.text, Address: d.Path("/simulate") + "?" + query,
			Current: query == shown.values().Encode(),
		})
	}
	return links
}
