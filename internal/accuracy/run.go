// Package accuracy compares rate limiting algorithms. It runs the same calls through the
// models of package limiter and measures how far each differs from the exact sliding
// window. The simulations of the dashboard and the API import it. It does no I/O and reads
// no clock; the same Scenario gives the same Result on every machine. A test writes its
// results, and those of published algorithms, into docs/algorithms.md.
//
// # What is measured
//
// Time is in whole microseconds. The rolling window that ends at t is (t-Window, t]; a
// call that was admitted at s is in it while t-s < Window. Only admitted calls fill a
// rolling window.
//
// The exact log is a separate implementation, independent of package limiter. It admits a
// call if the cost admitted in the rolling window that ends now, plus the call's cost,
// does not exceed the limit. It decides the same calls. After an algorithm's first
// different decision, its history differs from the log's:
//
//   - a false allow is a call that the algorithm admitted and the exact log denied;
//   - a false denial is a call that the algorithm denied and the exact log admitted.
//
// An algorithm that admits as many calls at other instants has as many false allows as
// false denials. So each decision is also compared with the algorithm's own history:
//
//   - an overfull call was admitted although the algorithm's own rolling window had no
//     room for it;
//   - a withheld call was denied although the algorithm's own rolling window had room.
//
// The worst rolling window is the largest admitted cost in any rolling window of the run.
// The cost of a window only grows at an admission, so only windows that end at one are
// searched. Two indexes moving along the admitted calls visit them all in O(n).
//
// The error of a retry-after is its distance from the exact one, which ends when the same
// call would first be admitted without calls in between. The error is measured on a sample
// of the denials.
package accuracy

//go:generate go test -run ^TestAlgorithmsDocument$ -update .

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"tidegate/internal/limiter"
)

// retrySamples is the approximate number of a run's denials whose retry-after is
// measured.
const retrySamples = 256

// Run simulates a scenario's calls with the exact log and with its algorithms. It returns
// an error only if the scenario is not valid. A call that costs more than the limit is
// denied and never reaches the algorithm. With limits Beside, the worst window and the
// series are those of the first limit.
func Run(s Scenario) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, fmt.Errorf("accuracy: %w", err)
	}
	r := newRun(s)
	result := Result{Scenario: s, Calls: int64(len(r.calls)), From: r.from, To: r.to}
	result.Scenario.Traffic.Calls = nil
	for _, c := range r.calls {
		result.Offered += c.Cost
	}
	if s.Points > 0 {
		result.Demand = series(r.calls, r.bounds[0].window, r.from, r.to, s.Points)
	}
	result.Exact = r.play(Algorithm{Name: "exact", Title: "the exact log",
		build: func(limits []bound) decider { return newExactLogs(limits) }})
	for _, c := range s.selected() {
		result.Outcomes = append(result.Outcomes, r.play(c))
	}
	return result, nil
}

// run is a scenario with its calls and the exact log's decisions.
type run struct {
	bounds   []bound // the measured one first
	longest  int64   // window
	points   int
	calls    []Call
	exact    []bool // the exact log's decisions
	from, to int64
}

func newRun(s Scenario) *run {
	r := &run{bounds: s.bounds(), points: s.Points, calls: s.calls()}
	for _, b := range r.bounds {
		r.longest = max(r.longest, b.window)
	}
	log := newExactLogs(r.bounds)
	for _, c := range r.calls {
		r.exact = append(r.exact, log.Take(c.At, c.Cost))
	}
	if n := len(r.calls); n > 0 {
		r.from, r.to = r.calls[0].At, r.calls[n-1].At+1
	}
	if s.Traffic.Shape != Recorded {
		r.from = min(r.from, begin(r.bounds[0].window))
	}
	return r
}

// play simulates the calls with one algorithm.
func (r *run) play(c Algorithm) Outcome {
	o := Outcome{Algorithm: c}
	d := c.build(r.bounds)
	own := newExactLogs(r.bounds)
	least := own.room(0) // of all limits, unused
	stride := max(1, len(r.calls)/retrySamples)
	sampled := -1
	for i, call := range r.calls {
		room := own.room(call.At)
		fits, possible := call.Cost <= room, call.Cost <= least
		allowed := possible && d.Take(call.At, call.Cost)
		o.compare(allowed, r.exact[i], fits)
		switch {
		case allowed:
			o.admit(call, own.admit(call))
		case possible:
			if fits {
				o.MostWithheld = max(o.MostWithheld, room)
			}
			if i/stride != sampled {
				sampled = i / stride
				o.sampleRetry(d, call, r.longest)
			}
		}
	}
	if r.points > 0 {
		o.Series = series(own[0].admitted, r.bounds[0].window, r.from, r.to, r.points)
	}
	return o
}

// compare compares a decision with the exact log's, and with the free part of the
// algorithm's own rolling window.
func (o *Outcome) compare(allowed, exact, fits bool) {
	switch {
	case allowed && !exact:
		o.FalseAllows++
	case !allowed && exact:
		o.FalseDenials++
	}
	switch {
	case allowed && !fits:
		o.Overfull++
	case !allowed && fits:
		o.Withheld++
	}
}

// admit counts an admitted call. cost is the cost of the rolling window that ends at it.
func (o *Outcome) admit(c Call, cost int64) {
	o.AdmittedCalls++
	o.Admitted += c.Cost
	if cost > o.Worst {
		o.Worst, o.WorstAt = cost, c.At
	}
}

// sampleRetry compares the retry-after of the last denial with the earliest instant at
// which the call would be admitted.
func (o *Outcome) sampleRetry(d decider, call Call, window int64) {
	a, ok := d.(adviser)
	if !ok {
		return
	}
	// Without calls, every algorithm admits again after two windows.
	wait := sort.Search(int(2*window), func(us int) bool { return a.passes(call.At+int64(us), call.Cost) })
	given := int(a.retryAfter())
	e := &o.Retry
	e.Samples++
	if given < wait {
		e.Early++
	}
	if given > wait {
		e.Late++
	}
	distance := time.Duration(max(given-wait, wait-given)) * time.Microsecond
	e.Most = max(e.Most, distance)
}

// Result is the result of a Scenario.
type Result struct {
	Scenario Scenario `json:"scenario"` // without recorded calls
	Calls    int64    `json:"calls"`
	Offered  int64    `json:"offered"` // total cost of the calls
	// From and To are the bounds of the series, in microseconds on the calls' clock. To
	// is after the last call.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Demand is the series of the offered cost.
	Demand   []int64   `json:"demand,omitempty"`
	Exact    Outcome   `json:"exact"` // of the exact log
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is one algorithm's result for a scenario's calls. The package comment defines
// the terms.
type Outcome struct {
	Algorithm
	AdmittedCalls int64 `json:"admittedCalls"`
	Admitted      int64 `json:"admitted"` // total cost of the admitted calls
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
	WorstAt int64      `json:"worstAt"`
	Retry   RetryError `json:"retry"`
	// Series has, for each of equal parts of [From, To), the largest cost of a rolling
	// window that ended in it.
	Series []int64 `json:"series,omitempty"`
}

// RetryError is the error of the retry-after in the sampled denials.
type RetryError struct {
	Samples int64         `json:"samples"` // 0 for an algorithm without retry-after or denials
	Early   int64         `json:"early"`   // samples that were too short: the retry is denied
	Late    int64         `json:"late"`    // samples that were longer than necessary
	Most    time.Duration `json:"most"`    // the largest error
}

// Trace runs calls of cost 1 through the model of a list of limits and returns its
// decisions. Their times at are in order, at least 0, and relative to a boundary of the
// aligned windows of the longest limit.
func Trace(limits []limiter.Limit, at []time.Duration) ([]limiter.Decision, error) {
	if err := limiter.ValidateAll(limits); err != nil {
		return nil, fmt.Errorf("accuracy: %w", err)
	}
	if len(at) > MaxCalls || !slices.IsSorted(at) || len(at) > 0 && at[0] < 0 {
		return nil, fmt.Errorf("accuracy: %d calls: must be at most %d, in time order from 0",
			len(at), MaxCalls)
	}
	longest := slices.MaxFunc(limits, func(a, b limiter.Limit) int { return cmp.Compare(a.Span(), b.Span()) })
	origin := time.UnixMicro(begin(longest.Span().Microseconds()))
	decisions := make([]limiter.Decision, len(at))
	var m limiter.Model
	for i, offset := range at {
		d, err := m.Take(origin.Add(offset), limits, 1)
		if err != nil {
			return nil, fmt.Errorf("accuracy: %w", err)
		}
		decisions[i] = d
	}
	return decisions, nil
}
