package accuracy

import (
	"time"

	"tidegate/internal/limiter"
)

// model is package limiter's model with one limit.
type model struct {
	state  limiter.Model
	limits []limiter.Limit
	retry  time.Duration
}

func ours(limit, window int64, rest limiter.Limit) decider {
	rest.Requests, rest.Window = limit, time.Duration(window)*time.Microsecond
	return &model{limits: []limiter.Limit{rest}}
}

// ourLog stores every call: it has as many slots as the limit.
func ourLog(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Slots: int(max(limiter.MinSlots, limit))})
}

func ourGroupedLog(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Slots: limiter.MinSlots})
}

func ourAttemptsLog(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Slots: int(max(limiter.MinSlots, limit)), CountDenied: true})
}

func ourCounter(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Algorithm: limiter.Counter})
}

func ourBucket(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Algorithm: limiter.TokenBucket})
}

func ourFixedWindow(limit, window int64) decider {
	return ours(limit, window, limiter.Limit{Algorithm: limiter.FixedWindow})
}

// Take denies a call whose cost is above the limit, for which the model returns an error.
func (m *model) Take(now, cost int64) bool {
	d, err := m.state.Take(time.UnixMicro(now), m.limits, cost)
	m.retry = d.RetryAfter()
	return err == nil && d.Allowed
}

func (m *model) retryAfter() int64 { return m.retry.Microseconds() }

func (m *model) passes(now, cost int64) bool {
	return m.state.Peek(time.UnixMicro(now), m.limits).Limits[0].Remaining >= cost
}
