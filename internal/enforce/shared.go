package enforce

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
)

func (r *round) sharedRuns() []run {
	runs := make([]run, 0, len(r.Steps)-1)
	for _, s := range r.Steps[1:] {
		runs = append(runs, sharedRun(sharedScript, s.Subject, s.step))
	}
	return runs
}

// addShared adds the decisions of the steps on shared limits, and returns the first error.
func (r *round) addShared(replies []reply) (failed error) {
	for i, reply := range replies {
		err := reply.err
		if err == nil {
			err = r.add(i+1, reply.numbers)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// add adds the decision of a step.
func (r *round) add(step int, numbers []int64) error {
	d, err := r.Steps[step].step.Decision(numbers)
	if err != nil {
		return fmt.Errorf("enforce: check: %w", err)
	}
	first := 0
	for _, s := range r.Steps[:step] {
		first += len(s.Limits)
	}
	for i, u := range d.Limits {
		r.Result.Limits[first+i].Set(u)
	}
	if len(d.Taken) > 0 {
		r.taken = append(r.taken, taken{r.Steps[step].Subject, d, first})
	}
	r.Result.Now = d.Now
	r.Result.Allowed = r.Result.Allowed && d.Allowed
	r.Result.WouldAllow = r.Result.WouldAllow && d.WouldAllow()
	return nil
}

// Set sets the state of a limit.
func (l *LimitState) Set(u limiter.Usage) {
	l.Remaining, l.Owed, l.Next, l.RetryAfter = u.Remaining, u.Owed, u.Next, u.RetryAfter
	l.Never, l.Unread = u.Never, !u.Asked
	if l.AtOnce { // a call may end at any time
		l.Next, l.RetryAfter = 0, min(l.RetryAfter, atOnceRetry)
	}
}

// atOnceRetry is the Retry-After of a limit of calls at once.
const atOnceRetry = time.Second

// giveBackTime is the least time allowed for giving back, even if the call's own deadline
// is sooner.
const giveBackTime = 100 * time.Millisecond

// giveBack gives back what was taken for a call that is not allowed. A cost that cannot
// be given back stays counted until its window passes: limits then deny too much, but
// never admit too much.
func (r *round) giveBack(ctx context.Context) {
	if len(r.taken) == 0 {
		return
	}
	ctx, cancel := store.AtLeast(ctx, giveBackTime)
	defer cancel()
	runs := make([]run, len(r.taken))
	for i, t := range r.taken {
		runs[i] = giveRun(t.subject, t.decision.Settle(), "")
		if t.subject == r.Result.ID && r.mark != "" {
			runs[i] = giveRun(t.subject, t.decision.Settle(), keyspace.Of(r.Result.ID, r.mark))
		}
	}
	r.c.flush(ctx, runs)
	r.recordStillCrossed(ctx)
	for _, t := range r.taken {
		for i := range t.decision.Limits {
			r.Result.Limits[t.first+i].Restore()
		}
	}
	r.taken = nil
}

// Restore adds the cost back to what remains of a limit that the call passed.
func (l *LimitState) Restore() {
	if l.Unread || l.Full() || l.CountDenied {
		return
	}
	if l.Remaining = min(l.Remaining+l.Cost, l.Requests); l.Remaining == l.Requests ||
		l.Algorithm == limiter.Counter {
		l.Next = 0
	}
}
