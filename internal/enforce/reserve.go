package enforce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// defaultReservationExpiry is how long a reservation can be settled unless
// Checker.ReservationExpiry says otherwise.
const defaultReservationExpiry = 10 * time.Minute

// reservation returns the signed text that settles a call; empty if nothing was taken.
func (c *Checker) reservation(result *Result, call Call, rule *compiled.Route) string {
	r := c.reserved(result, result.taken, call, rule)
	if r.Empty() {
		return ""
	}
	r.Expires = result.Now.Add(c.ReservationExpiry)
	return c.seal.Write(&r)
}

// reserved returns a Reservation of the given costs that a call took.
func (c *Checker) reserved(result *Result, all []taken, call Call,
	rule *compiled.Route) reservation.Reservation {
	r := reservation.New(call.Subject, result.plan, result.Cost)
	r.SettleMax, r.Rule = rule.SettleBound(r.Cost), rule.Tag
	for _, t := range all {
		state := reservation.StateOf(t.scope)
		r.Took(state, t.at, t.spared(result))
		if state == reservation.IP || state == reservation.RouteIP {
			r.Network = c.subjects.Network(call.Network)
		}
		if state == reservation.Group {
			r.Group, r.GroupPlan = policy.GroupID(result.group.name), result.group.plan
		}
	}
	return r
}

// Reserve takes a cost from the limits of a key, for a backend that reserves by itself.
// It returns what a Check with that cost would, with a reservation to settle. id is that
// of the key. route names a rule whose limits on each key and on all keys apply too;
// empty for none. The routes that the key opens do not matter. The rule's SettleMax bounds
// the settlement, but never below cost. Without one the bound is policy.DefaultSettleMax
// times cost, whatever the rule's own cost is.
//
// Reserve fails as Check does, with policy.ErrNotFound for an unknown id or route, and
// with limiter.ErrCost for a cost below 1 or above a limit.
func (c *Checker) Reserve(ctx context.Context, id, route string, cost int64) (Result, error) {
	if cost < 1 || cost > limiter.MaxRequests {
		return Result{}, fmt.Errorf("%w: %d is not 1 to %d", limiter.ErrCost, cost,
			int64(limiter.MaxRequests))
	}
	call, err := c.byID(ctx, id)
	if err != nil {
		return Result{}, err
	}
	return c.withNewestSet(ctx, func(set *compiled.Set) (Result, error) {
		rule := set.Fallback
		if route != "" {
			if rule = set.Named(route); rule == nil {
				return Result{}, errors.Join(policy.ErrNotFound, c.checkNewest(ctx, set, id))
			}
		}
		plan, err := set.PlanFor(call.Kind, "")
		if err != nil {
			return Result{}, errors.Join(err, c.checkNewest(ctx, set, id))
		}
		priced := *rule
		priced.Cost, priced.Settle = cost, true
		return c.check(ctx, set, call, plan, &priced, nil)
	})
}

// byID returns a call by a subject, which must have a record.
func (c *Checker) byID(ctx context.Context, id string) (Call, error) {
	record, err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(id)).Build()).AsBytes()
	switch {
	case valkey.IsValkeyNil(err):
		return Call{}, policy.ErrNotFound
	case err != nil:
		return Call{}, fmt.Errorf("enforce: reserve: %w", err)
	}
	k, secrets, err := policyset.DecodeRecord(id, record)
	if err != nil {
		return Call{}, err
	}
	call := Call{Kind: k.Kind, Subject: id, reserves: true}
	if k.Kind == policy.APIKey {
		call.hash = string(secrets.Current[:])
	}
	return call, nil
}
