package decide

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
)

// Authentication never fails open. A caller is known for Settings.CallerCache after Valkey
// last returned its record, and only with a credential that the record has. It is known at
// most until its record changes without an edit: it expires, or its override ends. All
// other callers are denied, but addresses on an open plan: they have no secret. The plan
// determines what happens to a known caller: see policy.Degraded. Every such decision is
// marked Degraded.
//
// With policy.Local, each process applies its share of the limits to its callers, with
// models of package limiter. All processes together admit at most share × processes of a
// limit, in addition to what Valkey admitted before. A second outage continues the counts
// of the first. A share is rounded down, but is at least 1.

// decideWithout answers a call without Valkey. A caller that the policy set refuses is
// still refused. An unknown caller gets a denial without an ID.
func (d *Decider) decideWithout(call enforce.Call) (enforce.Result, error) {
	denied := enforce.Result{Degraded: true, Now: d.now().UTC()}
	checker := d.source.Loaded()
	if checker == nil {
		return denied, nil
	}
	terms, _ := checker.Known(call, d.lifetime)
	if terms == nil {
		terms = openAddress(checker, call)
	}
	switch {
	case terms == nil || errors.Is(refusal(terms), policy.ErrUnknownKey):
		return denied, nil // a secret that the record lacks may be newer than the record
	case terms.Refused != nil:
		return enforce.Result{}, &policy.RefusedError{Cause: terms.Refused.Cause, Verified: true,
			Reason: terms.Refused.Reason}
	}
	result := terms.Result
	result.Degraded, result.Now, result.Limits = true, denied.Now, nil
	if !result.BannedUntil.IsZero() {
		return result, nil
	}
	switch terms.Plan.Degraded {
	case policy.Open:
		result.Allowed, result.WouldAllow = true, true
	case policy.Local:
		return result, d.models.take(&result, terms, denied.Now)
	case policy.Closed:
	}
	return result, nil
}

func refusal(t *enforce.Terms) error {
	if t.Refused == nil {
		return nil
	}
	return t.Refused
}

// openAddress returns the terms of an address on an open plan: it has no secret to verify.
// It returns nil if Valkey refused the address, or its record has changed since Valkey
// returned it.
func openAddress(checker *enforce.Checker, call enforce.Call) *enforce.Terms {
	if call.Kind != policy.Address {
		return nil
	}
	terms, _ := checker.Known(call, math.MaxInt64)
	if terms == nil {
		terms = checker.Guess(call)
	}
	if terms == nil || terms.Plan.Degraded != policy.Open {
		return nil
	}
	return terms
}

// maxModels bounds the subjects that are counted without Valkey.
const maxModels = 14_000

// models count calls without Valkey, a model for each subject. They are safe for concurrent
// use.
type models struct {
	mu        sync.Mutex
	ofSubject *simplelru.LRU[string, *limiter.Model]
}

func newModels() *models {
	all, _ := simplelru.NewLRU[string, *limiter.Model](maxModels, nil) // fails only below size 1
	return &models{ofSubject: all}
}

func (m *models) of(subject string) *limiter.Model {
	model, found := m.ofSubject.Get(subject)
	if !found {
		model = &limiter.Model{}
		m.ofSubject.Add(subject, model)
	}
	return model
}

// take takes the call's cost from this process's share of all limits, or from none. It asks
// shared limits only if the caller's own limits allow the call.
func (m *models) take(result *enforce.Result, t *enforce.Terms, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := func(requests int64) int64 { return max(1, requests*int64(t.Plan.Share)/100) }
	type taken struct {
		model *limiter.Model
		limiter.Decision
	}
	var all []taken
	result.Allowed, result.WouldAllow = true, true
	for i := range t.Steps {
		if i == 1 && !result.Allowed {
			break
		}
		step, err := t.Steps[i].Scaled(share)
		if err != nil {
			return err
		}
		model := m.of(t.Steps[i].Subject)
		d, err := model.Take(step, now)
		if err != nil {
			return err
		}
		all = append(all, taken{model, d})
		result.Allowed, result.WouldAllow = result.Allowed && d.Allowed, result.WouldAllow && d.WouldAllow()
		for j, u := range d.Limits {
			l := enforce.LimitState{Applied: t.Steps[i].Limits[j], CountKey: t.Steps[i].Counts[j]}
			l.Requests = u.Limit.Requests
			l.Set(u)
			if l.Never { // the whole limit might admit it, so the call has to wait for Valkey
				l.Never, l.RetryAfter, l.Next = false, time.Second, 0
			}
			result.Limits = append(result.Limits, l)
		}
	}
	if !result.Allowed {
		for _, t := range all {
			t.model.Settle(t.Settle(), now)
		}
		for i := range result.Limits {
			result.Limits[i].Restore()
		}
	}
	return nil
}

// Unavailable reports whether an error of a check means that Valkey made no decision.
// Other errors are Valkey's answer.
func Unavailable(err error) bool {
	for _, answer := range []error{policy.ErrUnknownKey, policy.ErrRefused, policy.ErrUnreadable,
		enforce.ErrSet, limiter.ErrReply} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return store.Unavailable(err)
}
