package main

import (
	"context"
	"fmt"

	"github.com/go-redis/redis_rate/v10"
	"github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
)

const (
	limit     = 100 // of a subject whose checks are allowed
	denyLimit = 1   // of a subject that one check fills
)

// peers sets up published limiters for Go, each with the client library that it is made
// for.
func peers(h *harness) ([]*measuredLimiter, error) {
	return h.setUpAll(redisRate, ulule)
}

// setChecks sets the allowed and denied checks of c. newCheck returns a check with a
// limit.
func (c *measuredLimiter) setChecks(newCheck func(limit int) (*check, error)) (*measuredLimiter, error) {
	for limit, target := range map[int]**check{limit: &c.allowed, denyLimit: &c.denied} {
		check, err := newCheck(limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		*target = check
	}
	return c, nil
}

// bucketFill is the number of calls that are taken from a bucket of `limit` beforehand.
// Peers keep its key until the bucket is full again, which must be after the run.
const bucketFill = 75

func redisRate(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "redis_rate", note: "go-redis/redis_rate, GCRA"}
	l := redis_rate.NewLimiter(h.goRedis(c))
	return c.setChecks(func(most int) (*check, error) {
		quota := redis_rate.Limit{Rate: most, Burst: most, Period: h.window}
		check := &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				result, err := l.Allow(ctx, subject, quota)
				if err != nil {
					return false, err
				}
				return result.Allowed > 0, nil
			},
			verdict: func(leaves []string) bool { return number(leaves[0]) > 0 },
		}
		if most == limit {
			check.from, check.to = bucketFill, bucketFill
			check.fill = func(ctx context.Context, subject string, calls int) error {
				_, err := l.AllowN(ctx, subject, quota, calls)
				return err
			}
		}
		return check, nil
	})
}

func ulule(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "ulule", note: "ulule/limiter, fixed window from the first call"}
	store, err := ululestore.NewStore(h.goRedis(c))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.setChecks(func(limit int) (*check, error) {
		l := limiter.New(store, limiter.Rate{Period: h.window, Limit: int64(limit)})
		return &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				result, err := l.Get(ctx, subject)
				return !result.Reached, err
			},
			verdict: func(leaves []string) bool { return number(leaves[0]) <= int64(limit) },
		}, nil
	})
}
