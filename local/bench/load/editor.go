//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

const editEvery = 500 * time.Millisecond

// editor edits limits while their keys call: those of plans and, in turn, overrides of
// keys.
type editor struct {
	store *registry.Store
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

// adopt adds a group's limits to those that are edited.
func (e *editor) adopt(g group, ids []string, callers []caller) {
	limit := g.plan.Limits[0]
	if g.edited == planEdited {
		edits := newTimeline(limit.Requests)
		e.plans = append(e.plans, editedPlan{g.plan.Name, limit, edits})
		for i := range callers {
			callers[i].edits = edits
		}
		return
	}
	for i, id := range ids {
		callers[i].edits = newTimeline(limit.Requests)
		e.keys = append(e.keys, editedKey{id, limit, callers[i].edits})
	}
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
	set, err := e.store.Set(ctx)
	if err != nil {
		return err
	}
	for i := range set.Plans {
		if set.Plans[i].Name == p.name {
			p.limit.Requests = requests
			set.Plans[i].Limits = []limiter.Limit{p.limit}
		}
	}
	_, err = e.store.SaveSet(ctx, *set, byLoad)
	return err
}

func (e *editor) override(ctx context.Context, k editedKey, requests int64) error {
	key, err := e.store.Get(ctx, k.id)
	if err != nil {
		return err
	}
	k.limit.Requests = requests
	_, err = e.store.SetOverride(ctx, k.id, key.Version,
		&policy.Override{Limits: []limiter.Limit{k.limit}, Reason: byLoad.Reason}, byLoad)
	return err
}
