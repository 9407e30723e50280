//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/keys"
)

const editEvery = 500 * time.Millisecond

// editor edits limits while their keys call: those of plans and, in turn, overrides of
// keys.
type editor struct {
	store *keys.Store
	plans []editedPlan
	keys  []editedKey
}

type editedPlan struct {
	name  string
	limit limiter.Limit
	edits *timeline
}

type editedKey struct {
	id    string
	limit limiter.Limit
	edits *timeline
}

// callers returns the callers with a group's keys, and adds the group's limits to those
// that are edited.
func (e *editor) callers(g group, made []keys.Key) []caller {
	callers, limit := make([]caller, len(made)), g.plan.Limits[0]
	shared := newTimeline(limit.Requests)
	if g.edited == planEdited {
		e.plans = append(e.plans, editedPlan{g.plan.Name, limit, shared})
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
			e.keys = append(e.keys, editedKey{k.ID, limit, c.edits})
		}
	}
	return callers
}

// idle reports whether there is nothing to edit.
func (e *editor) idle() bool { return e == nil || len(e.plans)+len(e.keys) == 0 }

// run edits until ctx ends. It returns how many edits were made, and an error if one
// failed.
func (e *editor) run(ctx context.Context, c clock) (made int, err error) {
	if e.idle() {
		return 0, nil
	}
	for next := c.Now() + editEvery; c.Wait(ctx, next); next += editEvery {
		requests := int64(lowLimit)
		if made%2 == 0 {
			requests = highLimit
		}
		// An edit that has begun is acknowledged or fails, whether or not the load is
		// over.
		if err := e.edit(context.WithoutCancel(ctx), c, requests); err != nil {
			return made, fmt.Errorf("edit a limit: %w", err)
		}
		made++
	}
	return made, nil
}

func (e *editor) edit(ctx context.Context, c clock, requests int64) error {
	for _, p := range e.plans {
		if err := timed(c, p.edits, requests, func() error {
			return e.savePlan(ctx, p, requests)
		}); err != nil {
			return err
		}
	}
	for _, k := range e.keys {
		if err := timed(c, k.edits, requests, func() error {
			return e.override(ctx, k, requests)
		}); err != nil {
			return err
		}
	}
	return nil
}

// timed makes an edit and records when it came into force.
func timed(c clock, edits *timeline, requests int64, edit func() error) error {
	begun := c.Now()
	if err := edit(); err != nil {
		return err
	}
	edits.add(limitEdit{begun: begun, acknowledged: c.Now(), requests: requests})
	return nil
}

func (e *editor) savePlan(ctx context.Context, p editedPlan, requests int64) error {
	p.limit.Requests = requests
	return e.store.Edit(ctx, func(set *policy.Set) {
		for i := range set.Plans {
			if set.Plans[i].Name == p.name {
				set.Plans[i].Limits = []limiter.Limit{p.limit}
			}
		}
	})
}

func (e *editor) override(ctx context.Context, k editedKey, requests int64) error {
	key, err := e.store.Get(ctx, k.id)
	if err != nil {
		return err
	}
	k.limit.Requests = requests
	_, err = e.store.SetOverride(ctx, k.id, key.Version,
		&policy.Override{Limits: []limiter.Limit{k.limit}, Reason: e.store.By.Reason}, e.store.By)
	return err
}
