package accuracy

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

// Call is one call of a caller.
type Call struct {
	// At is in microseconds since 1970, or for recorded calls since any boundary of
	// aligned windows.
	At   int64 `json:"at"`
	Cost int64 `json:"cost"` // at least 1
}

// Shape is the distribution of a Traffic's calls over time.
type Shape string

// The shapes.
const (
	// Poisson places Rate x Windows calls independently at random: a Poisson process with
	// a given number of calls.
	Poisson Shape = "poisson"
	// OnOff places calls at Rate at random in 0.33 windows, then pauses for 0.78 windows.
	// A cycle has 1.11 windows, so that the bursts move across the boundaries of aligned
	// windows.
	OnOff Shape = "on-off"
	// Boundary attacks the boundary of two aligned windows, once in four windows. It
	// sends twice the limit in the last thousandth of a window and twice the limit in the
	// first thousandth of the next. It then calls evenly at Rate until that window ends,
	// and pauses.
	Boundary Shape = "boundary"
	// Greedy calls evenly at Rate.
	Greedy Shape = "greedy"
	// Recorded uses Calls.
	Recorded Shape = "recorded"
)

// Shapes lists every shape, in the order in which forms show them.
func Shapes() []Shape { return []Shape{Boundary, Poisson, OnOff, Greedy, Recorded} }

// Traffic describes a Scenario's calls. All calls except recorded ones cost 1.
type Traffic struct {
	Shape   Shape  `json:"shape"`
	Rate    int64  `json:"rate"`    // calls in a window, in percent of the limit
	Windows int64  `json:"windows"` // duration, in windows
	Calls   []Call `json:"calls,omitempty"`
}

const (
	maxRate    = 1_000_000
	maxWindows = 100_000

	// start is a time in microseconds since 1970. Generated calls begin at the first
	// boundary of aligned windows after it.
	start = 1_800_000_000_000_000

	onPercent     = 33   // part of a window in which OnOff calls
	cyclePercent  = 111  // part of a window that a cycle of OnOff takes
	attackWindows = 4    // windows from one attack of Boundary to the next
	burst         = 2    // calls in each burst of Boundary, in limits
	burstPart     = 1000 // a burst lasts window / burstPart
)

func (t Traffic) validate(limit, window int64) error {
	switch t.Shape {
	case Recorded:
		return validateCalls(t.Calls)
	case Poisson, OnOff, Boundary, Greedy:
	default:
		return fmt.Errorf("shape %.60q is not one of %v", t.Shape, Shapes())
	}
	if t.Rate < 1 || t.Rate > maxRate || t.Windows < 1 || t.Windows > maxWindows {
		return fmt.Errorf("rate is %d and windows %d: must be 1 to %d and 1 to %d", t.Rate, t.Windows,
			maxRate, maxWindows)
	}
	if n := t.count(limit); n > MaxCalls {
		return fmt.Errorf("rate, windows and limit make %d calls: must be at most %d", n, MaxCalls)
	}
	if over, _ := bits.Mul64(uint64(t.Windows+1), uint64(window)); over > 0 || (t.Windows+1)*window > 1<<60 {
		return fmt.Errorf("windows is %d: too long with such a window", t.Windows)
	}
	return nil
}

func validateCalls(calls []Call) error {
	if len(calls) > MaxCalls {
		return fmt.Errorf("%d calls: must be at most %d", len(calls), MaxCalls)
	}
	for i, c := range calls {
		if c.Cost < 1 || c.At < 0 || c.At > 1<<60 || i > 0 && c.At < calls[i-1].At {
			return fmt.Errorf("calls[%d]: must cost at least 1 and be in time order", i)
		}
	}
	return nil
}

// count returns the number of calls.
func (t Traffic) count(limit int64) int64 {
	switch t.Shape {
	case Recorded:
		return int64(len(t.Calls))
	case OnOff:
		return limit * t.Rate * t.cycles() * onPercent / 10_000
	case Boundary:
		return t.cycles() * (2*burst*limit + t.greedyCalls(limit))
	default:
		return limit * t.Rate * t.Windows / 100
	}
}

// cycles returns the number of cycles of OnOff or attacks of Boundary.
func (t Traffic) cycles() int64 {
	if t.Shape == OnOff {
		return max(1, t.Windows*100/cyclePercent)
	}
	return (t.Windows + attackWindows - 1) / attackWindows
}

// greedyCalls returns the number of calls in a window at Rate.
func (t Traffic) greedyCalls(limit int64) int64 { return limit * t.Rate / 100 }

// begin returns the first boundary of aligned windows after start.
func begin(window int64) int64 { return start + window - start%window }

// calls generates the calls, in time order.
func (t Traffic) calls(limit, window int64, seed uint64) []Call {
	from, n := begin(window), t.count(limit)
	switch t.Shape {
	case Poisson:
		return scattered(seed, n, t.Windows*window, func(at int64) int64 { return from + at })
	case OnOff:
		on, cycle := window*onPercent/100, window*cyclePercent/100
		on = max(1, on)
		return scattered(seed, n, t.cycles()*on, func(at int64) int64 { return from + at/on*cycle + at%on })
	case Boundary:
		var calls []Call
		for i := range t.cycles() {
			calls = t.attack(calls, from+i*attackWindows*window, limit, window)
		}
		return calls
	case Greedy:
		return even(nil, from, t.Windows*window, n)
	default:
		return slices.Clone(t.Calls)
	}
}

// attack appends the calls of one attack of Boundary, whose cycle begins at from.
func (t Traffic) attack(calls []Call, from, limit, window int64) []Call {
	boundary, part := from+2*window, max(1, window/burstPart)
	calls = even(calls, boundary-part, part, burst*limit)
	calls = even(calls, boundary, part, burst*limit)
	return even(calls, boundary+part, window-part, t.greedyCalls(limit))
}

// even appends n calls, evenly spread over [from, from+length).
func even(calls []Call, from, length, n int64) []Call {
	for i := range n {
		hi, lo := bits.Mul64(uint64(i), uint64(length))
		offset, _ := bits.Div64(hi, lo, uint64(n))
		calls = append(calls, Call{At: from + int64(offset), Cost: 1})
	}
	return calls
}

// scattered returns n calls at independent random instants of [0, length). place maps an
// instant to the call's time; it must be monotonic.
func scattered(seed uint64, n, length int64, place func(int64) int64) []Call {
	random := rand.NewPCG(seed, 0)
	calls := make([]Call, n)
	for i := range calls {
		at, _ := bits.Mul64(random.Uint64(), uint64(length))
		calls[i] = Call{At: int64(at), Cost: 1}
	}
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	for i := range calls {
		calls[i].At = place(calls[i].At)
	}
	return calls
}

// MaxMinutes is the maximum length of a Recording: a week.
const MaxMinutes = 7 * 24 * 60

// Minute is the number of calls in one minute.
type Minute struct {
	Begin time.Time // a whole minute
	Calls int64
}

// Recording is a caller's number of calls in each minute, in time order. Minutes without
// calls may be left out.
type Recording []Minute

// Traffic returns the recorded calls, each of cost 1. A recording has no times within a
// minute, so they are random. The same seed gives the same calls.
func (r Recording) Traffic(seed uint64) (Traffic, error) {
	if err := r.validate(); err != nil {
		return Traffic{}, fmt.Errorf("accuracy: %w", err)
	}
	t := Traffic{Shape: Recorded}
	random := rand.NewPCG(seed, 0)
	for _, m := range r {
		at := make([]int64, m.Calls)
		for i := range at {
			hi, _ := bits.Mul64(random.Uint64(), uint64(time.Minute.Microseconds()))
			at[i] = int64(hi)
		}
		slices.Sort(at)
		for _, offset := range at {
			t.Calls = append(t.Calls, Call{At: m.Begin.UnixMicro() + offset, Cost: 1})
		}
	}
	return t, nil
}

func (r Recording) validate() error {
	if len(r) > MaxMinutes {
		return fmt.Errorf("%d minutes: must be at most %d", len(r), MaxMinutes)
	}
	remaining := int64(MaxCalls)
	for i, m := range r {
		if m.Calls < 0 || m.Calls > remaining {
			return fmt.Errorf("minutes[%d] has %d calls: must be at least 0, in total at most %d", i,
				m.Calls, MaxCalls)
		}
		remaining -= m.Calls
		if m.Begin.Unix() < 0 || !m.Begin.Equal(m.Begin.Truncate(time.Minute)) || i > 0 &&
			!r[i-1].Begin.Before(m.Begin) {
			return fmt.Errorf("minutes[%d] begins at %s: must be a whole minute after the previous one", i,
				m.Begin.UTC().Format(time.RFC3339))
		}
	}
	return nil
}
