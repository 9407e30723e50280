package sitetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// Use makes calls until limit i of the key, of the first, has used[i] calls, and lists the
// key as denied and near a limit. Calls beyond the count of the next shorter limit are made before its
// window.
func (r *Registry) Use(name string, used ...int64) {
	r.T.Helper()
	states := r.states(name)[:len(used)]
	order := make([]int, len(states))
	for i, l := range states {
		order[i] = i
		for _, key := range r.Server.Keys() {
			if strings.HasPrefix(key, l.CountKey) {
				r.Server.Del(key)
			}
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(states[b].Span(), states[a].Span()) })
	for at, i := range order {
		n, when := used[i], Now
		if at+1 < len(order) {
			n, when = n-used[order[at+1]], Now.Add(-states[i].Span()/2)
		}
		var counting []enforce.LimitState // without shorter ones, which do not count these calls
		for _, l := range states {
			if l.Span() >= states[i].Span() {
				counting = append(counting, l)
			}
		}
		r.take(counting, n, when)
	}
	r.list(name)
	r.Server.SetTime(Now)
}

// list lists the key as near a limit, as a call does that takes nearly all of it. No page
// counts the call: it is too long ago.
func (r *Registry) list(name string) {
	const ago = 60 * 24 * time.Hour
	r.Record(records.Call{Time: time.Now().Add(-ago), Caller: r.IDs[name], Registered: true, Cost: 1,
		NearFor: ago + time.Hour})
}

// states returns the limits of the key that count its calls alone.
func (r *Registry) states(name string) []enforce.LimitState {
	r.T.Helper()
	set, err := r.Set(context.Background())
	r.Must(err)
	checker := enforce.NewChecker(r.Client, Pepper)
	all, err := checker.Usage(context.Background(), set, []policy.Key{r.Key(name)})
	r.Must(err)
	return slices.DeleteFunc(all[0], func(l enforce.LimitState) bool {
		return l.Unread || l.CountsOnly || !l.Who.OfCaller()
	})
}

func (r *Registry) take(states []enforce.LimitState, cost int64, when time.Time) {
	r.T.Helper()
	if cost == 0 {
		return
	}
	all := make([]limiter.Applied, len(states))
	for i, l := range states {
		all[i] = limiter.Applied{Limit: l.Step(), Count: l.CountKey, Cost: cost, Owner: l.Setter()}
		if l.Calendar != limiter.NoCalendar {
			all[i].Periods = limiter.PeriodsOf(l.Step(), when)
		}
	}
	step, err := limiter.NewStep(all)
	r.Must(err)
	r.Server.SetTime(when)
	decision, err := limiter.Take(context.Background(), r.Client, step)
	r.Must(err)
	if !decision.Allowed {
		r.T.Fatalf("use of %d: denied", cost)
	}
}

// Called records calls of the key with this name at a time.
func (r *Registry) Called(name string, at time.Time, allowed, denied int) {
	r.T.Helper()
	call := records.Call{Caller: r.IDs[name], Registered: true, Cost: 1, Time: at}
	r.Record(callsOf(call, allowed, denied)...)
}

// callsOf repeats a call: first the allowed ones, then the denied ones.
func callsOf(call records.Call, allowed, denied int) []records.Call {
	all := slices.Repeat([]records.Call{call}, allowed+denied)
	for i := range denied {
		all[allowed+i].Cause, all[allowed+i].Limit = cause.Limit, "10 per 10 seconds"
	}
	return all
}

// Record records calls, which the store gets at the time of the first.
func (r *Registry) Record(calls ...records.Call) {
	r.T.Helper()
	was, err := r.Client.Do(context.Background(), r.Client.B().Time().Build()).AsIntSlice()
	r.Must(err)
	r.Server.SetTime(calls[0].Time)
	defer r.Server.SetTime(time.Unix(was[0], 1000*was[1]))
	recorder := records.NewRecorder(func() time.Time { return calls[0].Time })
	for _, c := range calls {
		recorder.Record(c)
	}
	if report := recorder.Flush(context.Background(), r.Client); report.Err != nil {
		r.T.Fatal(report.Err)
	}
}
