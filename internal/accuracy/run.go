package accuracy

import (
	"fmt"
	"sort"
	"time"
)

// retrySamples is the approximate number of a run's denials whose retry-after is
// measured.
const retrySamples = 256

// Run simulates a scenario's calls with the exact log and with its algorithms. It fails
// only when the scenario is not valid. It denies a call that costs more than the limit
// without the algorithm.
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
		result.Demand = series(r.calls, r.window, r.from, r.to, s.Points)
	}
	result.Exact = r.play(Algorithm{Name: "exact", Title: "the exact log", build: newExactLog})
	for _, c := range s.selected() {
		result.Outcomes = append(result.Outcomes, r.play(c))
	}
	return result, nil
}

// run is a scenario with its calls and the exact log's decisions.
type run struct {
	limit, window int64
	points        int
	calls         []Call
	exact         []bool // the exact log's decisions
	from, to      int64
}

func newRun(s Scenario) *run {
	r := &run{limit: s.Limit, window: s.Window.Microseconds(), points: s.Points, calls: s.calls()}
	log := newExactLog(r.limit, r.window)
	for _, c := range r.calls {
		r.exact = append(r.exact, log.Take(c.At, c.Cost))
	}
	if n := len(r.calls); n > 0 {
		r.from, r.to = r.calls[0].At, r.calls[n-1].At+1
	}
	if s.Traffic.Shape != Recorded {
		r.from = min(r.from, begin(r.window))
	}
	return r
}

// play simulates the calls with one algorithm.
func (r *run) play(c Algorithm) Outcome {
	o := Outcome{Algorithm: c}
	d := c.build(r.limit, r.window)
	own := rolling{window: r.window}
	stride := max(1, len(r.calls)/retrySamples)
	sampled := -1
	for i, call := range r.calls {
		fits := own.at(call.At)+call.Cost <= r.limit
		possible := call.Cost <= r.limit
		allowed := possible && d.Take(call.At, call.Cost)
		o.compare(allowed, r.exact[i], fits)
		switch {
		case allowed:
			o.admit(call, own.admit(call))
		case possible:
			if fits {
				o.MostWithheld = max(o.MostWithheld, r.limit-own.sum)
			}
			if i/stride != sampled {
				sampled = i / stride
				o.sampleRetry(d, call, r.window)
			}
		}
		if u, ok := d.(unbounded); ok {
			o.Stored = max(o.Stored, int64(u.stored()))
		}
	}
	if r.points > 0 {
		o.Series = series(own.admitted, r.window, r.from, r.to, r.points)
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

// admit counts an admitted call. cost is that of the rolling window that ends at it.
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
	e.Total += distance
	e.Most = max(e.Most, distance)
}
