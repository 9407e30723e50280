package main

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/limiter"
)

// ownLimiter is Tidegate's limiter with some limits.
type ownLimiter struct {
	limiter         measuredLimiter
	allowed, denied limits
}

// limits are the limits of a check. Its subjects are filled beforehand with `from` to
// `to` calls, evenly; both are 0 if one call is enough.
type limits struct {
	limits   []limiter.Limit
	from, to int
}

// ours sets up Tidegate's limiter with several limits.
func ours(h *harness) ([]*measuredLimiter, error) {
	var limiters []*measuredLimiter
	for _, e := range append(logs(h), counts(h)...) {
		c := &e.limiter
		c.note = "Tidegate: " + c.note
		client, err := h.valkeyGo(c)
		if err != nil {
			return nil, err
		}
		for _, kind := range []struct {
			limits limits
			check  **check
		}{{e.allowed, &c.allowed}, {e.denied, &c.denied}} {
			// One prefix is enough, since the subjects of allowed and denied checks have
			// different names.
			l, err := limiter.New(client, "rl:", kind.limits.limits...)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			*kind.check = kind.limits.check(l)
		}
		limiters = append(limiters, c)
	}
	return limiters, nil
}

// logs returns limits that store the times of calls.
func logs(h *harness) []ownLimiter {
	one := func(requests int64, from, to int) limits {
		return limits{single(h.window, limiter.Log, requests), from, to}
	}
	return []ownLimiter{
		{
			limiter: measuredLimiter{name: "log100", note: "exact log, limit 100"},
			allowed: one(100, 10, 60), denied: one(100, 100, 100),
		},
		{
			limiter: measuredLimiter{name: "log10000", note: "exact log, limit 10,000",
				keys: max(h.keys/100, 1)}, // a state takes tens of kilobytes
			allowed: one(10_000, 1_000, 6_000), denied: one(10_000, 10_000, 10_000),
		},
		{
			limiter: measuredLimiter{name: "three_logs",
				note: "logs of 100 per 15 minutes, 1,000 per hour and 50,000 per day on one subject"},
			allowed: limits{three(h.window), 10, 60}, denied: limits{three(h.window), 100, 100},
		},
	}
}

// counts returns limits of the algorithms that store no times of calls. A limit of 1 is
// full after one call.
func counts(h *harness) []ownLimiter {
	one := func(a limiter.Algorithm, requests int64) limits {
		return limits{limits: single(h.window, a, requests)}
	}
	return []ownLimiter{
		{
			limiter: measuredLimiter{name: "counter", note: "two-window counter", windows: true},
			allowed: one(limiter.Counter, limit), denied: one(limiter.Counter, denyLimit),
		},
		{
			limiter: measuredLimiter{name: "token_bucket", note: "GCRA"},
			allowed: limits{single(h.window, limiter.TokenBucket, limit), bucketFill, bucketFill},
			denied:  one(limiter.TokenBucket, denyLimit),
		},
	}
}

func single(window time.Duration, a limiter.Algorithm, requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: window, Algorithm: a}}
}

func three(window time.Duration) []limiter.Limit {
	return []limiter.Limit{{Requests: 100, Window: window}, {Requests: 1_000, Window: 4 * window},
		{Requests: 50_000, Window: 96 * window}}
}

func (l limits) check(on *limiter.Limiter) *check {
	c := &check{
		take: func(ctx context.Context, subject string) (bool, error) {
			decision, err := on.Take(ctx, subject, 1)
			return decision.Allowed, err
		},
		verdict: func(leaves []string) bool {
			decision, err := limiter.ParseReply([]byte(leaves[0]), l.limits)
			return err == nil && decision.Allowed
		},
		from: l.from, to: l.to,
	}
	if l.to > 0 {
		c.fill = func(ctx context.Context, subject string, calls int) error {
			_, err := on.Take(ctx, subject, int64(calls))
			return err
		}
	}
	return c
}
