package accuracy

import "time"

// Result is the result of a Scenario.
type Result struct {
	Scenario Scenario `json:"scenario"` // without recorded calls
	Calls    int64    `json:"calls"`
	Offered  int64    `json:"offered"` // their cost
	// From and To bound the time of the series, in microseconds on the calls' clock. To
	// is after the last call.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Demand is the series of the offered cost, Exact the outcome of the exact log.
	Demand   []int64   `json:"demand,omitempty"`
	Exact    Outcome   `json:"exact"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is one algorithm's result for a scenario's calls. The package comment defines
// the terms.
type Outcome struct {
	Algorithm
	AdmittedCalls int64 `json:"admittedCalls"`
	Admitted      int64 `json:"admitted"` // their cost
	FalseAllows   int64 `json:"falseAllows"`
	FalseDenials  int64 `json:"falseDenials"`
	Overfull      int64 `json:"overfull"`
	Withheld      int64 `json:"withheld"`
	// MostWithheld is the largest unused part of the algorithm's own rolling window when
	// it denied a call that fitted.
	MostWithheld int64 `json:"mostWithheld"`
	Worst        int64 `json:"worst"` // the largest cost in a rolling window
	// WorstAt is when the first such window ended, in microseconds on the calls' clock; 0
	// if no call was admitted.
	WorstAt int64 `json:"worstAt"`
	// Stored is the maximum number of stored entries if the limit does not bound it, else
	// 0.
	Stored int64      `json:"stored"`
	Retry  RetryError `json:"retry"`
	// Series has for each equal part of the time the largest cost of a rolling window
	// that ended in it.
	Series []int64 `json:"series,omitempty"`
}

// RetryError is the error of the retry-after in the sampled denials.
type RetryError struct {
	Samples int64         `json:"samples"` // 0 for an algorithm without retry-after or denials
	Early   int64         `json:"early"`   // too short: a retry at that instant is denied again
	Late    int64         `json:"late"`    // longer than necessary
	Total   time.Duration `json:"total"`   // sum of the distances
	Most    time.Duration `json:"most"`    // the largest distance
}

// Mean returns the mean distance.
func (e RetryError) Mean() time.Duration {
	if e.Samples == 0 {
		return 0
	}
	return e.Total / time.Duration(e.Samples)
}
