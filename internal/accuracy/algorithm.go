package accuracy

import (
	"math"
	"slices"
	"time"

	"tidegate/internal/limiter"
)

// Algorithm is an algorithm of package limiter that Run can simulate.
type Algorithm struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	build func(limits []bound) decider
}

// bound is a limit of a run.
type bound struct{ limit, window int64 } // microseconds

// The names of the algorithms.
const (
	Log            = "log"
	LogGrouped     = "log-grouped"
	LogCountDenied = "log-count-denied"
	Counter        = "counter"
	TokenBucket    = "token-bucket"
	FixedWindow    = "fixed-window"
)

// decider decides calls in time order.
type decider interface {
	// Take decides a call at now, in microseconds, and counts it as the algorithm does.
	Take(now, cost int64) bool
}

// adviser is a decider with a retry-after.
type adviser interface {
	retryAfter() int64           // of the last denial, in microseconds after it
	passes(now, cost int64) bool // reports whether Take would admit the call; counts nothing
}

var algorithms = []Algorithm{
	{Name: Log, Title: "log", build: ours(limiter.Limit{})},
	{Name: LogGrouped, Title: "log, 64 slots",
		build: ours(limiter.Limit{Slots: limiter.MinSlots})},
	{Name: LogCountDenied, Title: "log, denied calls count",
		build: ours(limiter.Limit{CountDenied: true})},
	{Name: Counter, Title: "counter", build: ours(limiter.Limit{Algorithm: limiter.Counter})},
	{Name: TokenBucket, Title: "token bucket (GCRA, leaky bucket)",
		build: ours(limiter.Limit{Algorithm: limiter.TokenBucket})},
	{Name: FixedWindow, Title: "fixed window",
		build: ours(limiter.Limit{Algorithm: limiter.FixedWindow})},
}

// Algorithms lists every algorithm.
func Algorithms() []Algorithm { return slices.Clone(algorithms) }

// model is package limiter's model with a list of limits.
type model struct {
	state  limiter.Model
	limits []limiter.Limit
	retry  time.Duration
}

// ours returns a function that builds the model of limits like l with the scenario's
// requests and windows. A log without Slots gets as many slots as the limit, so that it
// stores the time of every call.
func ours(l limiter.Limit) func(limits []bound) decider {
	return func(limits []bound) decider {
		m := &model{}
		for _, b := range limits {
			scaled := l
			scaled.Requests, scaled.Window = b.limit, time.Duration(b.window)*time.Microsecond
			if l.Algorithm == limiter.Log && l.Slots == 0 {
				scaled.Slots = int(max(limiter.MinSlots, b.limit))
			}
			m.limits = append(m.limits, scaled)
		}
		return m
	}
}

// Take denies a call whose cost is above the limit, for which the model returns an error.
func (m *model) Take(now, cost int64) bool {
	d, err := m.state.Take(time.UnixMicro(now), m.limits, cost)
	m.retry = d.RetryAfter()
	return err == nil && d.Allowed
}

func (m *model) retryAfter() int64 { return m.retry.Microseconds() }

func (m *model) passes(now, cost int64) bool {
	return !slices.ContainsFunc(m.state.Peek(time.UnixMicro(now), m.limits).Limits,
		func(u limiter.Usage) bool { return u.Remaining < cost })
}

// rolling has all admitted calls, and the cost of those in the current rolling window.
type rolling struct {
	window   int64
	admitted []Call
	first    int   // index of the first call in the rolling window
	sum      int64 // cost in the rolling window
}

// at moves the window's end to now and returns the cost in the window. now must not
// decrease between calls.
func (r *rolling) at(now int64) int64 {
	for r.first < len(r.admitted) && r.admitted[r.first].At <= now-r.window {
		r.sum -= r.admitted[r.first].Cost
		r.first++
	}
	return r.sum
}

// admit adds a call, moves the window's end to it, and returns the cost in the window.
func (r *rolling) admit(c Call) int64 {
	r.admitted = append(r.admitted, c)
	r.sum += c.Cost
	return r.at(c.At)
}

// exactLogs are the exact sliding windows of a list of limits, with which the algorithms
// are compared.
type exactLogs []exactLog

type exactLog struct {
	rolling
	limit int64
}

func newExactLogs(limits []bound) exactLogs {
	var all exactLogs
	for _, b := range limits {
		all = append(all, exactLog{rolling{window: b.window}, b.limit})
	}
	return all
}

// room returns the largest cost that every limit admits at now.
func (all exactLogs) room(now int64) int64 {
	least := int64(math.MaxInt64)
	for i := range all {
		least = min(least, all[i].limit-all[i].at(now))
	}
	return least
}

// admit adds a call, and returns the cost in the window of the first limit.
func (all exactLogs) admit(c Call) int64 {
	for i := range all {
		all[i].admit(c)
	}
	return all[0].sum
}

func (all exactLogs) Take(now, cost int64) bool {
	if cost > all.room(now) {
		return false
	}
	all.admit(Call{now, cost})
	return true
}

// series divides [from, to) into equal parts. For each it returns the largest cost of a
// rolling window that ends in it.
func series(calls []Call, window, from, to int64, points int) []int64 {
	most := make([]int64, points)
	r := rolling{window: window}
	next := 0
	for i := range most {
		begin, end := part(from, to, i, points), part(from, to, i+1, points)
		most[i] = r.at(begin)
		for ; next < len(calls) && calls[next].At < end; next++ {
			most[i] = max(most[i], r.admit(calls[next]))
		}
	}
	return most
}

// part returns the begin of part i when [from, to) is divided into equal parts.
func part(from, to int64, i, parts int) int64 {
	whole, rest := (to-from)/int64(parts), (to-from)%int64(parts)
	return from + whole*int64(i) + rest*int64(i)/int64(parts)
}
