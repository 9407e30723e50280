package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

const (
	maxCalls    = 500 // of a sandbox; each is a row
	timesSample = "0s, 1s, 1.5s x3, 1m"
)

// sandbox is a limit and the times of calls against it, as typed. The address contains
// all of it.
type sandbox struct {
	form.LimitInput // with inputs for requests, window, unit and algorithm
	times           form.Input
}

// rules are the algorithms that the sandbox offers, under the names of package accuracy.
var rules = []struct {
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

// showCalls plays the calls of the address to the limit of the address.
func (d *pages) showCalls(w http.ResponseWriter, r *http.Request) {
	entered := readSandbox(r.URL.Query())
	at, decisions := entered.play()
	p := templates.CallsPage{
		Page:   d.Page(r, "Try calls"),
		Tabs:   d.simulateTabs(true),
		Action: d.Path("/simulate/calls"),
		Limit:  form.Field(entered.Requests), Window: form.Field(entered.Window),
		Unit:      form.Field(entered.Unit),
		Algorithm: form.Field(entered.Algorithm), Times: form.Field(entered.times),
		Units: windowUnits(), Algorithms: ruleOptions(), Sample: timesSample, Errors: entered.errors(),
		Bounds: "At most " + page.Number(maxCalls) +
			" calls. 0 s is the beginning of an aligned window. x3 repeats a time.",
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

func ruleOptions() []templates.Option {
	var options []templates.Option
	for _, c := range accuracy.Algorithms() {
		if c.Ours {
			options = append(options, templates.Option{Value: c.Name, Text: c.Title})
		}
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

func (t *sandbox) fields() map[string]*form.Input {
	return map[string]*form.Input{
		"limit": &t.Requests, "window": &t.Window, "unit": &t.Unit, "algorithm": &t.Algorithm,
		"times": &t.times,
	}
}

// readSandbox reads the inputs from the address. A small example fills in missing ones.
func readSandbox(q url.Values) sandbox {
	var t sandbox
	sample := map[string]string{"limit": "3", "window": "10", "unit": "second", "algorithm": accuracy.Log,
		"times": "0s, 1s, 1.5s x3, 9.9s, 10s x2, 11s"}
	for name, in := range t.fields() {
		in.Text = sample[name]
		switch {
		case !q.Has(name):
		case name == "times":
			in.Text = form.ClipList(q.Get(name))
		default:
			in.Text = page.Clip(q.Get(name), form.MaxInput)
		}
	}
	return t
}

// play reads what was typed, notes what is wrong with it, and returns the calls and what
// became of them.
func (t *sandbox) play() (at []time.Duration, decisions []limiter.Decision) {
	limit := t.rule()
	limit.Requests = t.Requests.Whole("Enter the number of calls.", 1, limiter.MaxRequests)
	if strings.HasPrefix(t.Unit.Text, form.CalendarPrefix) {
		t.Unit.Error = form.ChooseFromList
	} else {
		limit.Window, _ = t.Period()
	}
	at = t.instants()
	if t.errors() > 0 {
		return nil, nil
	}
	decisions, err := accuracy.Trace(limit, at)
	if err != nil {
		t.times.Error = "These calls cannot be simulated."
	}
	return at, decisions
}

func (t *sandbox) rule() limiter.Limit {
	for _, r := range rules {
		if r.name == t.Algorithm.Text {
			return r.limit
		}
	}
	t.Algorithm.Error = form.ChooseFromList
	return limiter.Limit{}
}

// instants returns the times that were typed, in order.
func (t *sandbox) instants() []time.Duration {
	var all []time.Duration
	for _, item := range t.times.List("Enter call times, such as "+timesSample+".", timesSample, maxCalls) {
		at, ok := parseOffset(item.Text)
		if t.times.Error == "" && !ok {
			t.times.Error = "“" + page.Clip(item.Text, 20) +
				"” is no time up to 366 days. Type times such as " + timesSample + "."
		}
		if t.times.Error != "" {
			return nil
		}
		for range item.Times {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// parseOffset reads "1.5s", "1m30s", "2h" or a bare number of seconds.
func parseOffset(text string) (time.Duration, bool) {
	if last := text[len(text)-1]; '0' <= last && last <= '9' {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	return d.Truncate(time.Microsecond), err == nil && d >= 0 && d <= limiter.MaxWindow
}

func (t *sandbox) errors() int {
	n := 0
	for _, in := range t.fields() {
		if in.Error != "" {
			n++
		}
	}
	return n
}
