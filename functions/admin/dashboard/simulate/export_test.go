package simulate

import (
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// Experiment is what Simulate offers as a link: as it is, and with every algorithm.
type Experiment struct {
	Text, Query string
	Address     string // with every algorithm
	Scenario    accuracy.Scenario
}

// Experiments lists them.
func Experiments() []Experiment {
	var all []Experiment
	for _, p := range presets {
		one, every := p.simulation(), p.simulation()
		every.algorithms = nil
		for _, c := range accuracy.Algorithms() {
			every.algorithms = append(every.algorithms, c.Name)
		}
		all = append(all, Experiment{
			Text: p.text, Query: one.values().Encode(),
			Address: "/simulate?" + every.values().Encode(), Scenario: every.scenario(),
		})
	}
	return all
}

// OverLimit says by how much the worst window is above the limit.
func OverLimit(worst, limit int64) string { return overLimit(worst, limit) }

// Rules are the limits that can be played with calls, by name.
func Rules() map[string]limiter.Limit {
	all := map[string]limiter.Limit{}
	for _, r := range rules {
		all[r.name] = r.limit
	}
	return all
}
