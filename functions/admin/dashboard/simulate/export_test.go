package simulate

import (
	"tidegate/internal/accuracy"
)

// Preset is an example that the page links to.
type Preset struct {
	Text     string
	Query    string            // of the link
	Address  string            // address of the same simulation with every algorithm
	Scenario accuracy.Scenario // of Address
}

// Presets returns the presets in the order of the page.
func Presets() []Preset {
	var all []Preset
	for _, p := range presets {
		one, every := p.simulation(), p.simulation()
		every.algorithms = nil
		for _, c := range accuracy.Algorithms() {
			every.algorithms = append(every.algorithms, c.Name)
		}
		all = append(all, Preset{
			Text: p.text, Query: one.values().Encode(),
			Address: "/simulate?" + every.values().Encode(), Scenario: every.scenario(),
		})
	}
	return all
}

// OverLimit returns how far the worst window exceeds the limit, in percent.
func OverLimit(worst, limit int64) string { return overLimit(worst, limit) }
