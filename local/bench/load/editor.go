//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/harness"
)

const editEvery = 500 * time.Millisecond

// editor edits limits while their keys make calls: first the limits of plans, then the
// overrides of keys.
type editor struct {
	store *harness.Server
	plans []editedLimit
	keys  []editedLimit // overrides
}

// editedLimit is the only limit of a plan or a key.
type editedLimit struct {
	name  string // of the plan, or id of the key
	limit limiter.Limit
	edits *timeline
}

// callers returns the callers with a group's keys. It registers the group's limits for
// edits.
func (e *editor) callers(g group, made []harness.Key) []caller {
	callers, limit := make([]caller, len(made)), g.plan.Limits[0]
	shared := newTimeline(limit.Requests)
	if g.edited == planEdited {
		e.plans = append(e.plans, editedLimit{g.plan.Name, limit, shared})
	}
	for i, k := range made {
		c := &callers[i]
		*c = caller{name: fmt.Sprintf("%s %d", g.plan.Name, i+1), credential: k.Secret.Reveal(),
			plan: g.plan.Name, limits: g.plan.Limits}
		switch g.edited {
		case planEdited:
			c.edits = shared
		case notEdited:
		case overridden:
			c.edits = newTimeline(limit.Requests)
			e.keys = append(e.keys, editedLimit{k.ID, limit, c.edits})
		}
	}
	return callers
}

// run edits all limits every editEvery until ctx ends. It returns the number of edits,
// and an error if an edit failed.
func (e *editor) run(ctx context.Context, c clock) (made int, err error) {
	if e == nil || len(e.plans)+len(e.keys) == 0 { // nothing to edit
		return 0, nil
	}
	for next := c.Now() + editEvery; c.Wait(ctx, next); next += editEvery {
		requests := int64(lowLimit)
		if made%2 == 0 {
			requests = highLimit
		}
		// An edit that has begun is completed even if the load ends meanwhile.
		if err := e.edit(context.WithoutCancel(ctx), c, requests); err != nil {
			return made, fmt.Errorf("edit a limit: %w", err)
		}
		made++
	}
	return made, nil
}

// edit sets all limits to a number of requests. It records when each edit began and was
// acknowledged.
func (e *editor) edit(ctx context.Context, c clock, requests int64) error {
	for _, kind := range []struct {
		limits []editedLimit
		save   func(context.Context, editedLimit) error
	}{{e.plans, e.savePlan}, {e.keys, e.override}} {
		for _, l := range kind.limits {
			l.limit.Requests = requests
			begun := c.Now()
			if err := kind.save(ctx, l); err != nil {
				return err
			}
			l.edits.add(limitEdit{begun: begun, acknowledged: c.Now(), requests: requests})
		}
	}
	return nil
}

func (e *editor) savePlan(ctx context.Context, p editedLimit) error {
	return e.store.Edit(ctx, func(set *policy.Set) {
		for i := range set.Plans {
			if set.Plans[i].Name == p.name {
				set.Plans[i].Limits = []limiter.Limit{p.limit}
			}
		}
	})
}

func (e *editor) override(ctx context.Context, k editedLimit) error {
	key, err := e.store.Get(ctx, k.name)
	if err != nil {
		return err
	}
	_, err = e.store.Update(ctx, k.name, key.Version, audit.KeyOverride, e.store.By, func(key *policy.Key) {
		key.Override = &policy.Override{Limits: []limiter.Limit{k.limit}, Reason: e.store.By.Reason}
	})
	return err
}

// timeline has the edits of a limit. It is safe for concurrent use.
type timeline struct {
	mu    sync.Mutex
	edits []limitEdit
}

// limitEdit is an edit of a limit. It comes into force between begun and acknowledged.
type limitEdit struct {
	begun, acknowledged time.Duration
	requests            int64
}

func newTimeline(requests int64) *timeline {
	return &timeline{edits: []limitEdit{{requests: requests}}}
}

func (t *timeline) add(e limitEdit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.edits = append(t.edits, e)
}

// between returns the lowest and the highest value that the limit may have had between
// first and last.
func (t *timeline) between(first, last time.Duration) (lowest, highest int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range t.edits {
		begun := i == 0 || e.begun <= last
		over := i+1 < len(t.edits) && t.edits[i+1].acknowledged < first
		if !begun || over {
			continue
		}
		if highest == 0 || e.requests < lowest {
			lowest = e.requests
		}
		highest = max(highest, e.requests)
	}
	return lowest, highest
}

// highest returns the highest value of the limit.
func (t *timeline) highest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	value := int64(0)
	for _, e := range t.edits {
		value = max(value, e.requests)
	}
	return value
}
