package limiter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Applied is a limit that applies to a call.
type Applied struct {
	Limit Limit
	// Count names what the limit counts: for whom, with its values, the unit and the routes.
	// It is the key in Valkey of the count's log, and begins the names of its other keys.
	// All counts of a step have one hash tag. It has no '|'.
	Count string
	// Cost is what the call costs the count, in its unit: 0 to MaxRequests. All limits of a
	// count have one cost. With 0 the call passes the limit and takes nothing.
	Cost int64
	// Owner says who set a token bucket, such as a plan: buckets of two owners drain apart.
	Owner string
	// Periods are those of a calendar, by the clock of whoever makes the step.
	Periods Periods
	// Replaced says that an override takes the place of the limit, which then only counts.
	Replaced bool
}

// Fate says which calls a state counts, and whether its limits deny.
type Fate uint8

// The fates. The zero value is that of a count's ordinary state: it counts the calls that
// every enforced limit admits.
const (
	Attempts Fate = 1 << iota // counts every call, denied ones too
	Shadow                    // denies nothing; counts the calls that its own limits admit, too
)

// State is the state of a count with one fate, in a key of its own.
type State struct {
	Key       string
	Algorithm Algorithm
	Fate      Fate
	Cost      int64
	Number    int64 // the largest number of its limits; that of a token bucket
	Window    int64 // the longest window of its limits, or the longest period (microseconds)
	Periods   Periods
	Rates     []Rate // of the limits that are asked; the others only count
}

// Rate is the number of a limit and its window (microseconds).
type Rate struct{ Number, Window int64 }

// Periods are the beginnings of the previous, the present and the next period of a
// calendar, and the end of the next one (microseconds since 1970). The zero value stands
// for windows aligned to the epoch. Beyond them, periods are as long as the nearest one.
type Periods [4]int64

// PeriodsOf returns the periods of a limit's calendar around an instant. It reads the time
// zone database; its result holds until the present period ends.
func PeriodsOf(l Limit, now time.Time) (p Periods) {
	shifts := l.Calendar.Shifts(l.Zone, now)
	p[1], p[2] = l.Calendar.Around(now.UnixMicro(), shifts, l.Day)
	p[0], _ = l.Calendar.Around(p[1]-1, shifts, l.Day)
	_, p[3] = l.Calendar.Around(p[2], shifts, l.Day)
	return p
}

func (p Periods) ascend() bool { return 0 < p[0] && p[0] < p[1] && p[1] < p[2] && p[2] < p[3] }

// period returns the window of a fixed window that contains an instant.
func (s *State) period(now int64) (start, end int64) {
	p := s.Periods
	switch {
	case p == Periods{}:
		start = now - now%s.Window
		return start, start + s.Window
	case now < p[0]:
		length := p[1] - p[0]
		start = p[0] - (p[0]-now+length-1)/length*length
		return start, start + length
	case now >= p[3]:
		length := p[3] - p[2]
		start = now - (now-p[3])%length
		return start, start + length
	}
	i := 0
	for now >= p[i+1] {
		i++
	}
	return p[i], p[i+1]
}

// Step is what one call asks of the states of one caller, or of one group, address or
// other subject. It is one atomic step of a script or of a Model.
type Step struct {
	States []State
	// Reset is when the caller was reset (microseconds since 1970, by the server's clock);
	// what was counted up to then does not count. 0 for never.
	Reset int64
	// Record is a key that marks the call as settled later; empty if it will not be. A call
	// that passes makes it, for RecordFor. Its settlement takes it away.
	Record    string
	RecordFor time.Duration

	limits []Limit
	asked  []int // the answer of each limit; -1 for one that only counts
}

// maxStates is the most states of one step.
const maxStates = 48

// ErrStep means that limits cannot be one step. It is a mistake of the caller.
var ErrStep = errors.New("limiter: not a step")

// NewStep arranges the limits that apply to a call into states. A limit in shadow and one
// that counts denied calls also let the ordinary state of their count count, so that it
// has forgotten nothing when the mark is taken away.
func NewStep(limits []Applied) (Step, error) {
	var s Step
	rates := make([][2]int, len(limits)) // state and place among its rates
	for _, special := range []bool{false, true} {
		for i, a := range limits {
			fate := a.fate()
			if special != (fate != 0) {
				continue // ordinary states first: they have the numbers of enforced token buckets
			}
			state, err := nameState(&s, a, fate)
			if err == nil && special && !s.hasBucket(a) {
				_, err = nameState(&s, a, 0)
			}
			if err != nil {
				return Step{}, fmt.Errorf("%w: limit %d: %w", ErrStep, i, err)
			}
			rates[i] = [2]int{state, -1}
			if p := &s.States[state]; !a.Replaced {
				rates[i][1] = len(p.Rates)
				p.Rates = append(p.Rates, Rate{a.Limit.Requests, a.Limit.Span().Microseconds()})
			}
		}
	}
	for _, a := range limits {
		s.limits = append(s.limits, a.Limit)
	}
	firsts := make([]int, len(s.States))
	for i := 1; i < len(s.States); i++ {
		firsts[i] = firsts[i-1] + len(s.States[i-1].Rates)
	}
	for _, r := range rates {
		asked := -1
		if r[1] >= 0 {
			asked = firsts[r[0]] + r[1]
		}
		s.asked = append(s.asked, asked)
	}
	if len(s.States) > maxStates {
		return Step{}, fmt.Errorf("%w: %d states, at most %d", ErrStep, len(s.States), maxStates)
	}
	return s, nil
}

func (a Applied) fate() (f Fate) {
	if a.Limit.CountDenied {
		f = Attempts
	}
	if a.Limit.Shadow {
		f |= Shadow
	}
	return f
}

// hasBucket reports whether the limit is a token bucket whose ordinary state an enforced
// limit has named. A bucket in shadow may have another number than that.
func (s Step) hasBucket(a Applied) bool {
	return a.Limit.Algorithm == TokenBucket &&
		slices.ContainsFunc(s.States, func(p State) bool { return p.Key == a.key(0) })
}

// nameState finds or makes the state of a limit with a fate, and names the limit in it.
func nameState(s *Step, a Applied, fate Fate) (int, error) {
	number, window := a.Limit.Requests, a.Limit.Span().Microseconds()
	key := a.key(fate)
	i := slices.IndexFunc(s.States, func(p State) bool { return p.Key == key })
	if i < 0 {
		calendar := a.Limit.Calendar != NoCalendar
		switch {
		case a.Count == "" || strings.Contains(a.Count, "|"):
			return 0, fmt.Errorf("count %q", a.Count)
		case a.Cost < 0 || a.Cost > MaxRequests:
			return 0, fmt.Errorf("cost %d", a.Cost)
		case calendar != (a.Periods != Periods{}) || calendar && !a.Periods.ascend():
			return 0, fmt.Errorf("periods %v", a.Periods)
		}
		s.States = append(s.States, State{Key: key, Algorithm: a.Limit.Algorithm, Fate: fate, Cost: a.Cost,
			Number: number, Window: window, Periods: a.Periods})
		return len(s.States) - 1, nil
	}
	p := &s.States[i]
	if p.Cost != a.Cost {
		return 0, fmt.Errorf("a count with the costs %d and %d", p.Cost, a.Cost)
	}
	if p.Algorithm == TokenBucket && p.Number != number {
		return 0, fmt.Errorf("a token bucket of one owner with the numbers %d and %d", p.Number, number)
	}
	p.Number, p.Window = max(p.Number, number), max(p.Window, window)
	return i, nil
}

// key returns the name of the state: all exact limits of a count share a log for each
// fate. A counter or a fixed window has its window or calendar in its name, and a token
// bucket its owner.
func (a Applied) key(fate Fate) string {
	l := a.Limit
	name := a.Count
	if l.Algorithm == Log && fate == 0 {
		return name
	}
	name += "|" + [...]string{"", "a", "s", "as"}[fate]
	window := strconv.FormatInt(l.Window.Milliseconds(), 36)
	switch l.Algorithm {
	case Counter:
		name += "c" + window
	case TokenBucket:
		name += "b" + window + "." + a.Owner
	case FixedWindow:
		name += "f" + window
		if l.Calendar != NoCalendar {
			name += "." + l.Calendar.String() + "." + l.Zone
		}
		if l.Calendar == BillingMonth {
			name += "." + strconv.Itoa(l.Day)
		}
	case Log:
	}
	return name
}

// StateKeys returns the keys of the states that the limit needs: of the one that it asks
// and, unless that is it, of the ordinary one.
func (a Applied) StateKeys() []string {
	if fate := a.fate(); fate != 0 {
		return []string{a.key(fate), a.key(0)}
	}
	return []string{a.key(0)}
}

// Of reports whether the state belongs to a count.
func (s *State) Of(count string) bool {
	rest, found := strings.CutPrefix(s.Key, count)
	return found && (rest == "" || rest[0] == '|')
}
