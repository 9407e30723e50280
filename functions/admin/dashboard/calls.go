package dashboard

import (
	"net/http"
	"strconv"
	"time"

	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// showCalls plays the calls of the address to the limit of the address.
func (d *dashboard) showCalls(w http.ResponseWriter, r *http.Request) {
	form := readSandbox(r.URL.Query())
	at, decisions := form.play()
	p := templates.CallsPage{
		Page:   d.page(r, "Try calls"),
		Tabs:   d.simulateTabs(true),
		Action: d.path("/simulate/calls"),
		Limit:  field(form.requests), Window: field(form.window), Unit: field(form.unit), Algorithm: field(form.algorithm), Times: field(form.times),
		Units: windowUnits(), Algorithms: ruleOptions(), Sample: timesSample, Errors: form.errors(),
		Bounds: "At most " + number(maxCalls) + " calls. 0 s is the beginning of an aligned window. x3 repeats a time.",
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
	d.render(w, r, status, templates.Calls(p))
}

func callRow(i int, at time.Duration, d limiter.Decision) templates.CallRow {
	row := templates.CallRow{
		Number: strconv.Itoa(i + 1), At: offset(at), Allowed: d.Allowed, Remaining: number(d.Limits[0].Remaining),
	}
	if !d.Allowed {
		row.RetryAfter, row.Again = offset(d.RetryAfter()), offset(at+d.RetryAfter())
	}
	return row
}

func ruleOptions() []templates.Option {
	var options []templates.Option
	for _, c := range accuracy.Contenders() {
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
