package simulate

import (
	"net/http"
	"strconv"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

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
