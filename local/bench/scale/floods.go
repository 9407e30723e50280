//go:build unix

package scale

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/local/bench/figures"
)

// floods measures what one shard spends on each call of a flood: of allowed calls, of calls
// over a limit of their caller or of their address, and of made-up keys. The environments
// remember no denials, so all calls reach Valkey.
func floods(ctx context.Context, o options) ([]figures.Figure, error) {
	c, err := openCluster(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	once := []limiter.Limit{{Requests: 1, Window: 24 * time.Hour}}
	var all []figures.Figure
	for _, flood := range []struct {
		name    string
		limits  []limiter.Limit
		change  func(*enforce.Call) error
		allowed bool
	}{
		{"allowed", oneLimit, nil, true},
		{"denied", once, nil, false},
		{"full_address", oneLimit, fromOneAddress, false},
		{"made_up", oneLimit, madeUp, false},
	} {
		if err := c.Plan(ctx, flood.name, flood.limits...); err != nil {
			return nil, err
		}
		calls, err := c.calls(ctx, flood.name, o.callers)
		if err != nil {
			return nil, err
		}
		for i := 0; flood.change != nil && i < len(calls); i++ {
			if err := flood.change(&calls[i]); err != nil {
				return nil, err
			}
		}
		if err := c.Edit(ctx, func(s *policy.Set) {
			if s.PerIP.Limits = nil; flood.name == "full_address" {
				s.PerIP.Limits = once
			}
		}); err != nil {
			return nil, err
		}
		measured, err := c.flood(ctx, o, calls, flood.allowed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flood.name, err)
		}
		all = append(all, measured.named("flood."+flood.name+".", "rate", "cpu_us", "per_core")...)
	}
	return all, nil
}

// fromOneAddress makes a call as of an address that was denied a moment ago.
func fromOneAddress(call *enforce.Call) error {
	call.Network, call.Full = netip.MustParsePrefix("192.0.2.1/32"), policy.ScopeIP
	return nil
}

// madeUp gives a call a key that nobody created, as seen after the first ones of a flood.
func madeUp(call *enforce.Call) (err error) {
	call.Secret, err = apikey.Generate("bench")
	call.Subject, call.LookUp = call.Secret.ID(), true
	return err
}

// flood makes the calls twice, which uses up the limits of calls that are to be denied, and
// then measures them.
func (c *cluster) flood(ctx context.Context, o options, calls []enforce.Call, allowed bool) (costs, error) {
	f, err := newFleet(ctx, c.URL, environments, false)
	if err != nil {
		return nil, err
	}
	defer f.close(ctx)
	if _, err := f.checkTimes(ctx, calls, 2*len(calls)); err != nil {
		return nil, err
	}
	return measureCosts(ctx, o, c, f, calls, allowed)
}
