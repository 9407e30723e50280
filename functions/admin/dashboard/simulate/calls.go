package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

const (
	maxCalls    = 500 // calls of a sandbox, one row each
	timesSample = "0s, 1s, 1.5s x3, 1m"

	maxLimitsText = limiter.MaxLimits * (form.MaxLimitText + 2)
)

// sandbox is a list of limits and the times of calls against them, as the user typed them.
// The address contains all of it.
type sandbox struct {
	limits form.Input // in the notation of policies, separated by semicolons
	times  form.Input
}

// showCalls shows the decisions of limits on calls; the address has both.
func (d *pages) showCalls(w http.ResponseWriter, r *http.Request) error {
	s := readSandbox(r.URL.Query())
	at, decisions := s.decide()
	p := templates.CallsPage{
		Page:   d.Page(r, "Try calls"),
		Tabs:   d.simulateTabs(true),
		Action: d.Path("/simulate/calls"),
		Limits: form.Field(s.limits), Samples: form.LimitSamples(), Times: form.Field(s.times),
		Sample: timesSample,
		Errors: countErrors(s.fields()),
		Bounds: "At most " + page.Number(maxCalls) +
			" calls. The longest aligned window starts at 0 s. x3 repeats a time.",
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
	return d.Render(w, r, status, templates.Calls(p))
}

func callRow(i int, at time.Duration, d limiter.Decision) templates.CallRow {
	row := templates.CallRow{
		Number: strconv.Itoa(i + 1), At: page.Offset(at), Allowed: d.Allowed,
		Remaining: "–", By: "no limit is enforced",
	}
	if by := d.Binding(); by.Limit.Requests > 0 {
		row.Remaining, row.By = page.Number(by.Remaining), policydoc.LimitText(by.Limit)
	}
	if !d.Allowed {
		row.RetryAfter, row.Again = page.Offset(d.RetryAfter()), page.Offset(at+d.RetryAfter())
	}
	return row
}

func (s *sandbox) fields() map[string]*form.Input {
	return map[string]*form.Input{
		"limits": &s.limits, "times": &s.times,
	}
}

// readSandbox reads the sandbox in an address. An example supplies missing inputs.
func readSandbox(q url.Values) sandbox {
	s := sandbox{limits: form.Input{Text: "3 per 10 seconds"},
		times: form.Input{Text: "0s, 1s, 1.5s x3, 9.9s, 10s x2, 11s"}}
	if q.Has("limits") {
		s.limits = form.Typed(q, "limits", maxLimitsText)
	}
	if q.Has("times") {
		s.times.Text = form.ClipList(q.Get("times"))
	}
	return s
}

// decide returns the times of the typed calls and the decisions on them. It sets the
// errors of the fields. If there is an error, it returns no decisions.
func (s *sandbox) decide() (at []time.Duration, decisions []limiter.Decision) {
	limits := s.limits.Limits()
	at = s.instants()
	if countErrors(s.fields()) > 0 {
		return nil, nil
	}
	decisions, err := accuracy.Trace(limits, at)
	if err != nil {
		s.times.Error = "These calls cannot be simulated."
	}
	return at, decisions
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
