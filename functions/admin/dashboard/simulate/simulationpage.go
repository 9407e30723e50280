package simulate

import (
	"net/http"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/accuracy"
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
