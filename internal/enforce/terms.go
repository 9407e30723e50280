package enforce

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// Terms are what the policy set and the caller's record say of one call: who the caller is,
// why it may not call, and the limits that apply with the steps that count them.
type Terms struct {
	// Result has the facts of the call, without an answer. Its Limits are all that apply,
	// Unread, in the order of Steps.
	Result  Result
	Refused *policy.RefusedError // why the call may not be made; nil if it may
	Plan    policy.Plan
	Steps   []Step // the caller's own first, which may have no limits; then shared ones

	call     Call
	set      *compiled
	caller   *caller
	standing *standing
	proof    [sha256.Size]byte
}

// Step is one atomic step of a call on the limits of one subject.
type Step struct {
	Subject string // whose bucket has the counts
	Limits  []limits.Applied
	Counts  []string // keys of the limits' counts, by which their states are named

	periods []limiter.Periods
	step    limiter.Step
}

// Scaled returns the step with other numbers, for a limiter.Model.
func (s *Step) Scaled(requests func(int64) int64) (limiter.Step, error) {
	applied := make([]limiter.Applied, len(s.Limits))
	for i, a := range s.Limits {
		applied[i] = a.Counted(s.Counts[i], s.periods[i])
		applied[i].Limit.Requests = requests(a.Requests)
	}
	return limiter.NewStep(applied)
}

// periods has the calendar periods around the environment's clock. Reading the time zone
// database for each call would take longer than the check.
type periods struct {
	mu    sync.Mutex
	found map[limiter.Limit]limiter.Periods // by Calendar, Zone and Day alone
}

func (p *periods) of(l limits.Limit, now time.Time) limiter.Periods {
	if l.Calendar == limiter.NoCalendar {
		return limiter.Periods{}
	}
	key, at := limiter.Limit{Calendar: l.Calendar, Zone: l.Zone, Day: l.Day}, now.UnixMicro()
	p.mu.Lock()
	defer p.mu.Unlock()
	of, known := p.found[key]
	if !known || at < of[1] || at >= of[2] {
		if of = limiter.PeriodsOf(key, now); len(p.found) >= maxPeriods {
			clear(p.found)
		}
		p.found[key] = of
	}
	return of
}

// maxPeriods bounds the calendars that a Checker remembers.
const maxPeriods = 1_000

// terms finds the terms of a call by what is known of its caller. An error of it is a
// mistake of the policy set.
func (c *Checker) terms(set *compiled, k *caller, call Call, proof [sha256.Size]byte) (*Terms, error) {
	s := k.stand(set, call, proof)
	t := &Terms{call: call, set: set, caller: k, standing: s, proof: proof, Refused: s.refused, Plan: s.plan}
	t.Result = Result{
		ID: call.Subject, Name: s.key.Name, Plan: s.plan.Name, Group: s.key.Group, Source: s.source,
		SetVersion: set.Version, KeyVersion: s.key.Version, BannedUntil: s.banned, OldSecret: s.oldSecret,
		Opens: k.opens, Holds: s.until,
	}
	if t.Refused != nil {
		t.Result.BannedUntil = time.Time{}
		return t, nil //nolint:nilerr // the refusal is in Terms
	}
	if s.problem != nil {
		return nil, s.problem
	}
	found, err := s.router.Find(call.Route)
	found.Given, found.Settled = call.Costs, call.Settle
	if err != nil {
		t.Refused = &policy.RefusedError{Cause: cause.Malformed, Reason: ambiguous}
	} else {
		t.Refused = set.checkAddress(call.Address, s.candidates, &found)
	}
	if t.Refused == nil && (!opens(k.opens, call.Route) || !opens(set.opens[s.plan.Number], call.Route)) {
		t.Refused = &policy.RefusedError{Cause: cause.Access, Verified: true}
	}
	if t.Refused == nil && call.Scopes != nil && !hasScope(call.Scopes, found.Scopes()) {
		t.Refused = &policy.RefusedError{Cause: cause.Access, Verified: true, Reason: noScope}
	}
	if t.Refused != nil {
		t.Result.BannedUntil = time.Time{}
		return t, nil //nolint:nilerr // the refusal is in Terms
	}
	t.Result.Cost, _, _ = found.Cost(limits.Cost)
	t.Result.Route, t.Result.Settle, t.Result.Routes = found.Route, found.Settles(), found.Routes
	if within(set.Exempt, call.Address) {
		t.Result.Cost = 0
		t.Steps = []Step{{Subject: call.Subject}}
		return t, nil
	}
	return t, t.arrange(c, &found)
}

// noScope is the reason of a refusal of a token.
const noScope = "the token has none of the scopes that the route needs"

// hasScope reports whether a token has one of the wanted scopes, or none is wanted.
func hasScope(has, wanted []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(one string) bool {
		return slices.Contains(has, one)
	})
}

// ambiguous is the reason of a refusal that Explain shows too.
const ambiguous = "the path can be read in several ways that different routes match"

func opens(list *route.List, call route.Call) bool { return list == nil || list.Matches(call) }

// arrange puts the limits that apply to the call into steps, one for each subject.
func (t *Terms) arrange(c *Checker, call *limits.Call) error {
	t.Steps = append(t.Steps, Step{Subject: t.call.Subject})
	for i, candidate := range t.standing.candidates {
		a, ok := candidate.To(call, t.call.Network.IsValid())
		if !ok {
			continue
		}
		name := t.standing.names[i]
		if name == "" {
			if a.Count.Value != "" {
				a.Count.Value = c.subjects.Value(a.Count.Value)
			}
			name = a.Count.Name()
		}
		t.add(a, c.subjectOf(a, t.call, t.Result.Group, name), name)
	}
	return t.build(c)
}

// build makes the steps of the limits that were added.
func (t *Terms) build(c *Checker) error {
	now := c.Now()
	for i := range t.Steps {
		s := &t.Steps[i]
		applied := make([]limiter.Applied, len(s.Limits))
		for j, a := range s.Limits {
			s.periods = append(s.periods, c.periods.of(a.Limit, now))
			applied[j] = a.Counted(s.Counts[j], s.periods[j])
		}
		var err error
		if s.step, err = limiter.NewStep(applied); err != nil {
			return err
		}
		for j, a := range s.Limits {
			t.Result.Limits = append(t.Result.Limits,
				LimitState{Applied: a, CountKey: s.Counts[j], Unread: true})
		}
	}
	if t.standing != nil {
		t.Steps[0].step.Reset = resetOf(t.standing.key)
	}
	return nil
}

func resetOf(k policy.Key) int64 {
	if k.Reset.IsZero() {
		return 0
	}
	return k.Reset.UnixMicro()
}

// add adds a limit to the step of its subject.
func (t *Terms) add(a limits.Applied, subject, name string) {
	i := slices.IndexFunc(t.Steps, func(s Step) bool { return s.Subject == subject })
	if i < 0 {
		i = len(t.Steps)
		t.Steps = append(t.Steps, Step{Subject: subject})
	}
	t.Steps[i].Limits = append(t.Steps[i].Limits, a)
	t.Result.Settle = t.Result.Settle || a.AtOnce
	t.Steps[i].Counts = append(t.Steps[i].Counts, countKey(subject, name))
}

// countKey returns the key of a count, which begins those of all its states.
func countKey(subject, name string) string { return keyspace.Of(subject, "s"+name) }

// subjectOf returns the subject that a limit counts for: the caller, its group, its address,
// or the count itself for all callers together and for a value of a parameter.
func (c *Checker) subjectOf(a limits.Applied, call Call, group, name string) string {
	switch a.Who {
	case limits.EachGroup:
		return policy.GroupID(group)
	case limits.EachAddress:
		return c.subjects.Network(call.Network)
	case limits.EachParam, limits.Together:
		return sharedSubject + name
	default:
		return call.Subject
	}
}

// sharedSubject begins the subject of a count that belongs to no caller, group or address.
const sharedSubject = "all-"

// isGroup reports whether a subject is a group, whose counts may be reset.
func isGroup(subject string) bool { return strings.HasPrefix(subject, "group-") }

// Known returns the terms of a call by what Valkey said of its caller at most lifetime ago,
// and how long ago that was at most. It returns nil if it is not known that the caller may
// use the call's credential.
func (c *Checker) Known(call Call, lifetime time.Duration) (*Terms, time.Duration) {
	set, k := c.set.Load(), c.callers.find(call.Subject)
	if set == nil || k == nil || k.problem != nil {
		return nil, 0
	}
	now := c.Now()
	age := k.age(now)
	if age >= lifetime {
		return nil, 0
	}
	t, err := c.terms(set, k, call, c.proof(call))
	if err != nil {
		return nil, 0
	}
	if until := t.standing.until; !until.IsZero() && age >= until.Sub(k.now) {
		return nil, 0
	}
	return t, age
}

// Guess returns the terms of a call whose caller Valkey was never asked about, as if it had
// no record. It returns nil before the first policy set.
func (c *Checker) Guess(call Call) *Terms {
	set := c.set.Load()
	if set == nil || c.callers.find(call.Subject) != nil {
		return nil
	}
	t, err := c.terms(set, &caller{now: c.Now()}, call, c.proof(call))
	if err != nil {
		return nil
	}
	return t
}
