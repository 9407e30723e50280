package simulate

import (
	"net/url"

	"tidegate/internal/accuracy"
	"tidegate/web/templates"
)

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

// boundaryAttack is the experiment of an address without any: twice the limit on either
// side of a boundary, then greed.
func boundaryAttack() simulation {
	s := simulation{algorithms: compared}
	for name, in := range s.fields() {
		in.Text = map[string]string{
			"limit": "100", "window": "1", "unit": "minute", "shape": string(accuracy.Boundary), "rate": "10",
			"windows": "4", "seed": "1",
		}[name]
	}
	return s
}
