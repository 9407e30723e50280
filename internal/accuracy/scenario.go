package accuracy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter"
)

// Bounds of a Scenario.
const (
	MaxLimit = limiter.MaxSlots // above it the log does not store every call
	MaxCalls = 500_000
	// MaxPlayed bounds the calls of a simulation that a user asks for. All algorithms take
	// about half a second for them with a third of a core.
	MaxPlayed = 20_000
	MaxPoints = 2_000
)

// Scenario is one simulation: limits and calls.
type Scenario struct {
	Limit  int64         `json:"limit"`  // 1 to MaxLimit
	Window time.Duration `json:"window"` // within the bounds of limiter.Limit
	// Beside has further limits: a call passes only if all of them have room.
	Beside  []Limit `json:"beside,omitempty"`
	Traffic Traffic `json:"traffic"`
	// Seed of the random calls. The same seed gives the same calls on every machine.
	Seed uint64 `json:"seed"`
	// Clock is the clock's resolution in whole microseconds: calls within one tick have
	// the same time. 0 means a microsecond.
	Clock time.Duration `json:"clock"`
	// Algorithms has the names of the algorithms to run; empty means all of them.
	Algorithms []string `json:"algorithms,omitempty"`
	// Points is the length of the series of each Outcome: 0 (no series) to MaxPoints.
	Points int `json:"points"`
}

// Limit is a limit of a Scenario beside its first, with the same bounds.
type Limit struct {
	Limit  int64         `json:"limit"`
	Window time.Duration `json:"window"`
}

// bounds returns all limits, the first one first.
func (s Scenario) bounds() []bound {
	all := []bound{{s.Limit, s.Window.Microseconds()}}
	for _, l := range s.Beside {
		all = append(all, bound{l.Limit, l.Window.Microseconds()})
	}
	return all
}

// Validate returns an error for each field that is out of bounds, joined.
func (s Scenario) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, l := range append([]Limit{{s.Limit, s.Window}}, s.Beside...) {
		if l.Limit < 1 || l.Limit > MaxLimit {
			add("limit is %d: must be 1 to %d", l.Limit, MaxLimit)
		}
		if l.Window < limiter.MinWindow || l.Window > limiter.MaxWindow || l.Window%time.Millisecond != 0 {
			add("window is %s: must be 1 millisecond to 366 days, in whole milliseconds", l.Window)
		}
	}
	if len(s.Beside) >= limiter.MaxLimits {
		add("limits are %d: must be at most %d", 1+len(s.Beside), limiter.MaxLimits)
	}
	if s.Clock < 0 || s.Clock > s.Window || s.Clock%time.Microsecond != 0 {
		add("clock is %s: must be 0 to the window, in whole microseconds", s.Clock)
	}
	if s.Points < 0 || s.Points > MaxPoints {
		add("points is %d: must be 0 to %d", s.Points, MaxPoints)
	}
	for _, name := range s.Algorithms {
		if !slices.ContainsFunc(algorithms, func(c Algorithm) bool { return c.Name == name }) {
			add("algorithm %.60q is unknown", name)
		}
	}
	if len(errs) == 0 { // the traffic's size depends on the limit and the window
		errs = append(errs, s.Traffic.validate(s.Limit, s.Window.Microseconds()))
	}
	return errors.Join(errs...)
}

// Count returns the number of calls of a valid scenario.
func (s Scenario) Count() int64 { return s.Traffic.count(s.Limit) }

// selected returns the scenario's algorithms in the order of Algorithms.
func (s Scenario) selected() []Algorithm {
	if len(s.Algorithms) == 0 {
		return algorithms
	}
	var named []Algorithm
	for _, c := range algorithms {
		if slices.Contains(s.Algorithms, c.Name) {
			named = append(named, c)
		}
	}
	return named
}

// calls returns the scenario's calls in time order, with times rounded down to the
// clock's ticks.
func (s Scenario) calls() []Call {
	calls := s.Traffic.calls(s.Limit, s.Window.Microseconds(), s.Seed)
	if tick := s.Clock.Microseconds(); tick > 1 {
		for i := range calls {
			calls[i].At -= calls[i].At % tick
		}
	}
	return calls
}
