package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

const (
	maxCalls    = 500 // calls of a sandbox, one row each
	timesSample = "0s, 1s, 1.5s x3, 1m"
)

// sandbox is a limit and the times of calls against it, as the user typed them. The
// address contains all of it.
type sandbox struct {
	form.LimitInput // only Requests, Window, Unit and Algorithm are used
	times           form.Input
}

// sandboxLimits are the algorithms that the page offers, as limits without a rate. name
// is the name in package accuracy.
var sandboxLimits = []struct {
	name  string
	limit limiter.Limit
}{
	{accuracy.Log, limiter.Limit{}},
	{accuracy.LogCountDenied, limiter.Limit{CountDenied: true}},
	{accuracy.LogGrouped, limiter.Limit{Slots: limiter.MinSlots}},
	{accuracy.Counter, limiter.Limit{Algorithm: limiter.Counter}},
	{accuracy.TokenBucket, limiter.Limit{Algorithm: limiter.TokenBucket}},
	{accuracy.FixedWindow, limiter.Limit{Algorithm: limiter.FixedWindow}},
}

// showCalls shows the decisions of a limit on calls; the address has both.
func (d *pages) showCalls(w http.ResponseWriter, r *http.Request) {
	s := readSandbox(r.URL.Query())
	at, decisions := s.decide()
	p := templates.CallsPage{
		Page:   d.Page(r, "Try calls"),
		Tabs:   d.simulateTabs(true),
		Action: d.Path("/simulate/calls"),
		Limit:  form.Field(s.Requests), Window: form.Field(s.Window), Unit: form.Field(s.Unit),
		Algorithm: form.Field(s.Algorithm), Times: form.Field(s.times),
		Units: windowUnits(), Algorithms: sandboxOptions(), Sample: timesSample,
		Errors: countErrors(s.fields()),
		Bounds: "At most " + page.Number(maxCalls) +
			" calls. An aligned window starts at 0 s. x3 repeats a time.",
	}
	status := http.StatusOK
	if p.Errors > 0 {
		status = http.StatusUnprocessableEntity
	}
	allowed := 0
	for i, decision := range decisions {
		p.Rows = append(p.Rows, callRow(i, at[i], decision))
		if decision.Allowed {
			allowed++
		}
	}
	p.Summary = strconv.Itoa(allowed) + " of " + strconv.Itoa(len(decisions)) + " allowed"
	d.Render(w, r, status, templates.Calls(p))
}

func callRow(i int, at time.Duration, d limiter.Decision) templates.CallRow {
	row := templates.CallRow{
		Number: strconv.Itoa(i + 1), At: page.Offset(at), Allowed: d.Allowed,
		Remaining: page.Number(d.Limits[0].Remaining),
	}
	if !d.Allowed {
		row.RetryAfter, row.Again = page.Offset(d.RetryAfter()), page.Offset(at+d.RetryAfter())
	}
	return row
}

func sandboxOptions() []templates.Option {
	var options []templates.Option
	for _, c := range accuracy.Algorithms() {
		options = append(options, templates.Option{Value: c.Name, Text: c.Title})
	}
	return options
}

func windowUnits() []templates.Option {
	var options []templates.Option
	for _, unit := range limiter.WindowUnits() {
		options = append(options, templates.Option{Value: unit, Text: unit})
	}
	return options
}

func (s *sandbox) fields() map[string]*form.Input {
	return map[string]*form.Input{
		"limit": &s.Requests, "window": &s.Window, "unit": &s.Unit, "algorithm": &s.Algorithm,
		"times": &s.times,
	}
}

// readSandbox reads the sandbox in an address. An example supplies missing inputs.
func readSandbox(q url.Values) sandbox {
	var s sandbox
	sample := map[string]string{"limit": "3", "window": "10", "unit": "second", "algorithm": accuracy.Log,
		"times": "0s, 1s, 1.5s x3, 9.9s, 10s x2, 11s"}
	for name, in := range s.fields() {
		in.Text = sample[name]
		switch {
		case !q.Has(name):
		case name == "times":
			in.Text = form.ClipList(q.Get(name))
		default:
			in.Text = page.Clip(q.Get(name), form.MaxInput)
		}
	}
	return s
}

// decide returns the times of the typed calls and the decisions on them. It sets the
// errors of the fields. If there is an error, it returns no decisions.
func (s *sandbox) decide() (at []time.Duration, decisions []limiter.Decision) {
	limit := s.algorithm()
	limit.Requests = s.Requests.Whole("Enter the number of calls.", 1, limiter.MaxRequests)
	limit.Window = s.Period()
	at = s.instants()
	if countErrors(s.fields()) > 0 {
		return nil, nil
	}
	decisions, err := accuracy.Trace(limit, at)
	if err != nil {
		s.times.Error = "These calls cannot be simulated."
	}
	return at, decisions
}

// algorithm returns a limit with the typed algorithm and without a rate.
func (s *sandbox) algorithm() limiter.Limit {
	for _, r := range sandboxLimits {
		if r.name == s.Algorithm.Text {
			return r.limit
		}
	}
	s.Algorithm.Error = form.ChooseFromList
	return limiter.Limit{}
}

// instants returns the typed times, earliest first.
func (s *sandbox) instants() []time.Duration {
	var all []time.Duration
	for _, item := range s.times.List("Enter call times, such as "+timesSample+".", timesSample, maxCalls) {
		at, ok := parseOffset(item.Text)
		if s.times.Error == "" && !ok {
			s.times.Error = "“" + page.Clip(item.Text, 20) +
				"” is not a time of at most 366 days. Enter times such as " + timesSample + "."
		}
		if s.times.Error != "" {
			return nil
		}
		for range item.Times {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// parseOffset reads "1.5s", "1m30s", "2h" or a number of seconds, at most
// limiter.MaxWindow.
func parseOffset(text string) (time.Duration, bool) {
	if last := text[len(text)-1]; '0' <= last && last <= '9' {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	return d.Truncate(time.Microsecond), err == nil && d >= 0 && d <= limiter.MaxWindow
}
