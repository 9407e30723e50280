package main

import (
	"context"
	"fmt"
	"time"
)

// trips is one turn of a limiter with one call in flight.
type trips struct {
	limiter      *measuredLimiter
	scenario     string
	calls, pings []time.Duration
	command      float64
	probe        int
}

// callOneByOne makes calls one by one through the library, each followed by a PING.
func (b *bench) callOneByOne(ctx context.Context, c *measuredLimiter, s scenario, round int) error {
	check := s.check(c)
	if check == nil {
		return nil
	}
	recorded, err := b.recordCheck(ctx, c, s, round)
	if err != nil {
		return err
	}
	t := trips{limiter: c, scenario: s.name, probe: len(b.probes) - 1}
	account, err := b.server.account(ctx, func() error {
		for i := range b.pairs {
			name := subject(libraryDenied, 0)
			if s.allowed {
				name = b.subjects[(round*b.pairs+i)%b.librarySubjects(c)]
			}
			if err := t.pair(ctx, check, name, s.allowed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.command = account.of(recorded.commands)
	b.trips = append(b.trips, t)
	return b.probe()
}

func (t *trips) pair(ctx context.Context, check *check, subject string, want bool) error {
	begin := time.Now()
	allowed, err := check.take(ctx, subject)
	t.calls = append(t.calls, time.Since(begin))
	if err != nil {
		return err
	}
	if allowed != want {
		return fmt.Errorf("%w: allowed is %v", errVerdict, allowed)
	}
	begin = time.Now()
	err = t.limiter.ping(ctx)
	t.pings = append(t.pings, time.Since(begin))
	return err
}
