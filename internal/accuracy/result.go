package accuracy

import "time"

// Result is what a Scenario gave.
type Result struct {
	Scenario Scenario `json:"scenario"` // without recorded calls
	Calls    int64    `json:"calls"`
	Offered  int64    `json:"offered"` // their cost
	// From and To are the instants between which the series' points lie, microseconds on
	// the calls' clock: To is after the last call.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Demand is the series of the offered cost, Exact what the exact log made of it.
	Demand   []int64   `json:"demand,omitempty"`
	Exact    Outcome   `json:"exact"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is what one algorithm made of a scenario's calls. The package comment defines
// the terms.
type Outcome struct {
	Algorithm
	AdmittedCalls int64 `json:"admittedCalls"`
	Admitted      int64 `json:"admitted"` // their cost
	FalseAllows   int64 `json:"falseAllows"`
	FalseDenials  int64 `json:"falseDenials"`
	Overfull      int64 `json:"overfull"`
	Withheld      int64 `json:"withheld"`
	// MostWithheld is the most room that there was in the algorithm's own rolling window
	// when it denied a call that fitted.
	MostWithheld int64 `json:"mostWithheld"`
	Worst        int64 `json:"worst"` // the largest cost in a rolling window
	// when the first such window ended, microseconds on the calls' clock; 0 if nothing
	// was admitted
	WorstAt int64 `json:"worstAt"`
	// Stored is the most entries that it kept at a time, where the limit does not bound
	// them; else 0.
	Stored int64      `json:"stored"`
	Retry  RetryError `json:"retry"`
	// Series holds for each equal part of the time the largest cost in a rolling window
	// that ended in it.
	Series []int64 `json:"series,omitempty"`
}

// RetryError is how far the retry-after of the sampled denials was off.
type RetryError struct {
	Samples int64         `json:"samples"` // 0 when the algorithm gives none, or denied nothing
	Early   int64         `json:"early"`   // those after which a retry at the instant given is denied again
	Late    int64         `json:"late"`    // those that ask to wait longer than needed
	Total   time.Duration `json:"total"`   // of the distances
	Most    time.Duration `json:"most"`    // the largest distance
}

// Mean returns the mean distance.
func (e RetryError) Mean() time.Duration {
	if e.Samples == 0 {
		return 0
	}
	return e.Total / time.Duration(e.Samples)
}
