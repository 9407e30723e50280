package dashboard

import (
	"tidegate/internal/accuracy"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/web/templates"
)

// What tests from outside need of the pages: the bounds that they reach.
const (
	KeysPerPage    = keysPerPage
	CallersPerScan = callersPerScan
	MaxImport      = maxImport
	MaxMarks       = maxMarks
	MaxTold        = maxTold
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
		for _, c := range accuracy.Contenders() {
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

// Told remembers what entries changed.
type Told struct{ toldChanges }

// Of is what an entry changed.
func (t *Told) Of(e audit.Entry) []templates.Change { return t.of(e) }

// Len is how many entries are remembered.
func (t *Told) Len() int { return len(t.known) }

// EntryChanges is what an entry that holds both states changed.
func EntryChanges(e audit.Entry) []templates.Change { return entryChanges(e) }
