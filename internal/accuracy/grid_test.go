package accuracy

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// The runs behind the table of docs/algorithms.md.
var (
	gridLimits  = []int64{10, 100, 5000}
	gridTraffic = []gridColumn{
		{"Poisson 0.5×", Traffic{Shape: Poisson, Rate: 50}, []int64{2000, 200, 12}},
		{"Poisson 1×", Traffic{Shape: Poisson, Rate: 100}, []int64{1000, 200, 12}},
		{"Poisson 2×", Traffic{Shape: Poisson, Rate: 200}, []int64{1000, 100, 8}},
		{"Poisson 10×", Traffic{Shape: Poisson, Rate: 1000}, []int64{200, 40, 4}},
		{"on/off 10×", Traffic{Shape: OnOff, Rate: 1000}, []int64{400, 60, 8}},
		{"boundary 10×", Traffic{Shape: Boundary, Rate: 1000}, []int64{8, 8, 4}},
		{"greedy 20×", Traffic{Shape: Greedy, Rate: 2000}, []int64{10, 10, 2}},
	}
)

const (
	gridWindow = time.Minute
	gridSeed   = 20170607
)

// gridColumn is one traffic.
type gridColumn struct {
	title   string
	traffic Traffic
	windows []int64 // duration for each of gridLimits
}

// grid returns a Result for each of gridLimits and each of gridTraffic.
var grid = sync.OnceValue(func() [][]Result {
	results := make([][]Result, len(gridLimits))
	var scenarios []func()
	for i, limit := range gridLimits {
		results[i] = make([]Result, len(gridTraffic))
		for j, column := range gridTraffic {
			scenario := Scenario{Limit: limit, Window: gridWindow, Traffic: column.traffic, Seed: gridSeed}
			scenario.Traffic.Windows = column.windows[i]
			scenarios = append(scenarios, func() { results[i][j] = compare(scenario) })
		}
	}
	inParallel(scenarios)
	return results
})

// inParallel runs the functions, one per processor at a time. It begins with the last
// ones, which take longest.
func inParallel(functions []func()) {
	slices.Reverse(functions)
	queue := make(chan func(), len(functions))
	for _, f := range functions {
		queue <- f
	}
	close(queue)
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for f := range queue {
				f()
			}
		})
	}
	wait.Wait()
}

// mustRun runs a scenario that must be valid.
func mustRun(s Scenario) Result {
	r, err := Run(s)
	if err != nil {
		panic(err)
	}
	return r
}

// of returns the outcome of an algorithm in a scenario.
func (r Result) of(t testing.TB, name string) Outcome {
	t.Helper()
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("no outcome of algorithm %q", name)
	}
	return r.Outcomes[i]
}

func eachGridResult(t *testing.T, check func(*testing.T, Result)) {
	for i, limit := range gridLimits {
		for j, column := range gridTraffic {
			t.Run(fmt.Sprintf("%s/%d", column.title, limit), func(t *testing.T) { check(t, grid()[i][j]) })
		}
	}
}

// No rolling window of a log, exact or grouped, exceeds the limit in any scenario,
// whether denied calls count or not. The log makes the same decisions as the exact log.
func TestLogsNeverExceedTheLimit(t *testing.T) {
	eachGridResult(t, func(t *testing.T, r Result) {
		for _, name := range []string{Log, LogGrouped, LogCountDenied} {
			if o := r.of(t, name); o.Worst > r.Scenario.Limit || o.Overfull > 0 {
				t.Errorf("%s: got worst rolling window %d and %d overfull calls, want at most %d and none",
					name, o.Worst, o.Overfull, r.Scenario.Limit)
			}
		}
		if o := r.of(t, Log); o.FalseAllows+o.FalseDenials+o.Withheld > 0 || o.Admitted != r.Exact.Admitted {
			t.Errorf("log: got %+v, want the decisions of the exact log", o)
		}
	})
}

// Grouping withholds at most 1/64 of the limit, the size of a slot.
func TestGroupingWithholdsLittle(t *testing.T) {
	largest := int64(0)
	eachGridResult(t, func(t *testing.T, r Result) {
		withheld := r.of(t, LogGrouped).MostWithheld
		if withheld*64 > r.Scenario.Limit {
			t.Errorf("got %d of %d withheld, want at most 1/64", withheld, r.Scenario.Limit)
		}
		largest = max(largest, withheld)
	})
	if largest == 0 {
		t.Error("nothing was withheld in any scenario, so the bound was not tested")
	}
}

// The retry-after of our algorithms is the earliest instant at which the call would be
// admitted.
func TestOurRetryAfterIsExact(t *testing.T) {
	samples := int64(0)
	eachGridResult(t, func(t *testing.T, r Result) {
		for _, o := range r.Outcomes[:len(algorithms)] {
			samples += o.Retry.Samples
			if o.Retry.Most > 0 {
				t.Errorf("%s: got a retry-after with an error of %s, want 0", o.Name, o.Retry.Most)
			}
		}
	})
	if samples < 10_000 {
		t.Errorf("got %d sampled denials, want at least 10000", samples)
	}
}

// In the boundary attack, algorithms that do not store the calls' times admit almost
// twice the limit in a rolling window; logs admit at most the limit.
func TestBoundaryAttack(t *testing.T) {
	for i, limit := range gridLimits {
		r := grid()[i][slices.IndexFunc(gridTraffic, func(c gridColumn) bool {
			return c.traffic.Shape == Boundary
		})]
		for _, name := range []string{Counter, TokenBucket, FixedWindow, TwoWindow} {
			if worst := r.of(t, name).Worst; worst < 2*limit-limit/100-1 || worst > 2*limit {
				t.Errorf("limit %d, %s: got worst rolling window %d, want about twice the limit", limit, name,
					worst)
			}
		}
		for _, name := range []string{Log, LogGrouped, ZSETScript} {
			if worst := r.of(t, name).Worst; worst > limit {
				t.Errorf("limit %d, %s: got worst rolling window %d, want at most the limit", limit, name,
					worst)
			}
		}
	}
}
