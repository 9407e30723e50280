package accuracy

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

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
	allowed := int64(MaxCalls)
	for i, m := range r {
		if m.Calls < 0 || m.Calls > allowed {
			return fmt.Errorf("minutes[%d] has %d calls: must be 0 or more, all together at most %d", i,
				m.Calls, MaxCalls)
		}
		allowed -= m.Calls
		if m.Begin.Unix() < 0 || !m.Begin.Equal(m.Begin.Truncate(time.Minute)) || i > 0 &&
			!r[i-1].Begin.Before(m.Begin) {
			return fmt.Errorf("minutes[%d] begins at %s: must be a whole minute after the one before it", i,
				m.Begin.UTC().Format(time.RFC3339))
		}
	}
	return nil
}
