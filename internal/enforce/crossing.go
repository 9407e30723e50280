package enforce

import (
	"context"
	"slices"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
)

// Crossing reports that a call took the use of a limit to one of its thresholds.
type Crossing struct {
	Limit   limits.Limit
	Used    int64  // after the call
	Subject string // id of what the limit is on: a caller, an address, a group, a route
	Percent int    // the threshold
	// Reset is the time until the window of the limit has passed: the end of a fixed window,
	// else a whole window.
	Reset time.Duration
	At    time.Time // server time
}

// recordCrossings records the thresholds that an allowed call crossed. A call that was
// checked twice may have taken its cost twice.
func (r *round) recordCrossings() {
	at := 0
	for _, s := range r.Steps {
		for range s.Limits {
			l := r.Result.Limits[at]
			at++
			if len(l.Notify) == 0 || l.Unread || l.Full() {
				continue
			}
			cost := l.Cost
			if r.call.Again {
				cost *= 2
			}
			r.Result.Crossings = append(r.Result.Crossings, crossed(l, cost, s.Subject, r.Result.Now)...)
		}
	}
}

// recordStillCrossed records the thresholds that a call crossed and that giving back its
// cost leaves crossed. Calls made in between found them crossed and reported nothing.
func (r *round) recordStillCrossed(ctx context.Context) {
	for _, t := range r.taken {
		i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Subject == t.subject })
		step := r.Steps[i]
		if !slices.ContainsFunc(step.Limits, func(a limits.Applied) bool { return len(a.Notify) > 0 }) {
			continue
		}
		now := make([]LimitState, len(step.Limits))
		for j, a := range step.Limits {
			now[j].Applied = a
		}
		if r.c.look(ctx, []Step{step}, now) != nil {
			continue // the call is denied nevertheless
		}
		for j, l := range now {
			took := r.Result.Limits[t.first+j]
			if len(l.Notify) == 0 || l.Unread || took.Full() {
				continue
			}
			before := took.Used() + took.Owed - took.Cost
			r.Result.Crossings = append(r.Result.Crossings,
				crossed(l, l.Used()+l.Owed-before, step.Subject, r.Result.Now)...)
		}
	}
}

// crossed returns a Crossing for each threshold of a limit that taking a cost crossed.
func crossed(l LimitState, cost int64, subject string, at time.Time) (all []Crossing) {
	reset, used := l.Span(), l.Used()+l.Owed
	if l.Algorithm == limiter.FixedWindow {
		reset = l.Next
	}
	for _, percent := range l.Notify {
		if reached := int64(percent) * l.Requests; (used-cost)*100 < reached && used*100 >= reached {
			all = append(all, Crossing{Limit: l.Limit, Used: used, Subject: subject, Percent: percent, At: at,
				Reset: reset})
		}
	}
	return all
}
