package simulate

import (
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// preset is an example that the page links to. An empty query is boundaryAttack.
type preset struct{ text, query string }

var presets = []preset{
	{"Boundary burst", ""},
	{"Twice the limit", "limit=100+per+minute&shape=poisson&rate=2&windows=20"},
	{"At the limit", "limit=100+per+minute&shape=poisson&rate=1&windows=20"},
	{"On/off bursts", "limit=100+per+minute&shape=on-off&rate=10&windows=20"},
	{"Steady", "limit=100+per+minute&shape=greedy&rate=2&windows=6"},
	{"Large limit", "limit=5000+per+minute&shape=poisson&rate=1.5&windows=2"},
	{"A recorded spike", "limit=100+per+minute&shape=recorded&minutes=40,55,60,48,190x2,70,52,45x3,240,12"},
}

func (p preset) simulation() simulation {
	q, _ := url.ParseQuery(p.query) // a valid constant
	if len(q) > 0 {
		q["algorithm"] = defaultAlgorithms
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

// boundaryAttack returns the simulation of an address without fields: twice the limit on
// each side of a window's boundary, then steady calls.
func boundaryAttack() simulation {
	s := simulation{algorithms: defaultAlgorithms}
	for name, in := range s.fields() {
		in.Text = map[string]string{
			"limit": "100 per minute", "shape": string(accuracy.Boundary), "rate": "10",
			"windows": "4", "seed": "1",
		}[name]
	}
	return s
}

// Recorded returns the query that simulates recorded calls against limits. minutes has the
// calls of each minute, oldest first; passed is the number of allowed ones. Recorded leaves
// out limits that the page cannot simulate: a calendar's, one in shadow mode, and one above
// accuracy.MaxLimit. It returns an empty string if none is left, without calls, and with
// too many.
func Recorded(limits []limiter.Limit, minutes []int64, passed int64) string {
	var rates []string
	for _, l := range limits {
		if l.Calendar == limiter.NoCalendar && !l.Shadow && l.Requests <= accuracy.MaxLimit {
			rates = append(rates, policydoc.Rate(l))
		}
	}
	if total := chart.Total(minutes); len(rates) == 0 || total == 0 || total > accuracy.MaxPlayed {
		return ""
	}
	s := boundaryAttack()
	s.limit.Text, s.shape.Text = strings.Join(rates, "; "), string(accuracy.Recorded)
	s.minutes.Text, s.passed.Text = form.JoinCounts(minutes), strconv.FormatInt(passed, 10)
	return s.values().Encode()
}
