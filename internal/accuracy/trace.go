package accuracy

import (
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter"
)

// Trace takes calls of cost 1 from our model of a limit and returns its decisions. at has
// the calls' times in order, relative to a boundary of the limit's aligned windows.
func Trace(limit limiter.Limit, at []time.Duration) ([]limiter.Decision, error) {
	if err := limit.Validate(); err != nil {
		return nil, fmt.Errorf("accuracy: %w", err)
	}
	if len(at) > MaxCalls || !slices.IsSorted(at) || len(at) > 0 && at[0] < 0 {
		return nil, fmt.Errorf("accuracy: %d calls: must be at most %d, in time order from 0",
			len(at), MaxCalls)
	}
	origin := time.UnixMicro(begin(limit.Span().Microseconds()))
	limits := []limiter.Limit{limit}
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
