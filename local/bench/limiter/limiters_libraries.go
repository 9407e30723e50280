package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/sethvargo/go-redisstore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/valkey-io/valkey-go"
	"github.com/valkey-io/valkey-go/valkeylimiter"
)

const (
	limit     = 100           // of a subject whose checks are allowed
	hotLimit  = 1_000_000_000 // of the single subject of hot checks
	denyLimit = 1             // of a subject that one check fills
)

// peers sets up published limiters for Go, each with the client library that it is made
// for.
func peers(h *harness) ([]*measuredLimiter, error) {
	return h.setUpAll(valkeyLimiter, redisRate, ulule, throttle, redisStore)
}

// setChecks sets the allowed, denied and hot checks of c. newCheck returns a check with a
// limit.
func (c *measuredLimiter) setChecks(newCheck func(limit int) (*check, error)) (*measuredLimiter, error) {
	for limit, target := range map[int]**check{limit: &c.allowed, denyLimit: &c.denied, hotLimit: &c.hot} {
		check, err := newCheck(limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		*target = check
	}
	return c, nil
}

func valkeyLimiter(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "valkeylimiter",
		note: "valkey-go's fixed window from the first call, client's clock"}
	client, err := h.valkeyGo(c)
	if err != nil {
		return nil, err
	}
	return c.setChecks(func(limit int) (*check, error) {
		l, err := valkeylimiter.NewRateLimiter(valkeylimiter.RateLimiterOption{
			ClientBuilder: func(valkey.ClientOption) (valkey.Client, error) {
				return client, nil
			}, Limit: limit, Window: h.window,
		})
		if err != nil {
			return nil, err
		}
		return &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				result, err := l.Allow(ctx, subject)
				return result.Allowed, err
			},
			verdict: func(leaves []string) bool { return number(leaves[0]) <= int64(limit) },
		}, nil
	})
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

func throttle(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "throttled",
		note: "throttled/throttled, GCRA in the client by compare-and-swap, two round trips when " +
			"allowed",
		multiTrip: true}
	store, err := throttledstore.NewCtx(h.goRedis(c), "throttled:")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.setChecks(func(most int) (*check, error) {
		interval := h.window / time.Duration(most)
		l, err := throttled.NewGCRARateLimiterCtx(store,
			throttled.RateQuota{MaxRate: throttled.PerDuration(most, h.window), MaxBurst: most - 1})
		if err != nil {
			return nil, err
		}
		take := func(ctx context.Context, subject string, calls int) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, subject, calls)
			return !limited, err
		}
		check := &check{
			take: func(ctx context.Context, subject string) (bool, error) { return take(ctx, subject, 1) },
			// The replies are TIME's seconds and microseconds, and the time at which the
			// bucket is full again, in nanoseconds.
			verdict: func(leaves []string) bool {
				now := number(leaves[0])*int64(time.Second) + number(leaves[1])*int64(time.Microsecond)
				return number(leaves[2])+int64(interval)-int64(h.window) <= now
			},
		}
		if most == limit {
			check.from, check.to = bucketFill, bucketFill
			check.fill = func(ctx context.Context, subject string, calls int) error {
				_, err := take(ctx, subject, calls)
				return err
			}
		}
		return check, nil
	})
}

var errTake = errors.New("the store returned no tokens and no error")

func redisStore(h *harness) (*measuredLimiter, error) {
	// The library's own pool would open a connection for each call.
	c := &measuredLimiter{name: "go_redisstore",
		note: "sethvargo/go-redisstore, fixed window from the first call, client's clock, on a permanent " +
			"connection"}
	pool := h.redigo(c)
	return c.setChecks(func(limit int) (*check, error) {
		store, err := redisstore.NewWithPool(&redisstore.Config{Tokens: uint64(limit),
			Interval: h.window}, pool)
		if err != nil {
			return nil, err
		}
		return &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				tokens, _, _, allowed, err := store.Take(ctx, subject)
				if err == nil && tokens == 0 {
					err = errTake
				}
				return allowed, err
			},
			verdict: func(leaves []string) bool { return leaves[3] == "1" },
		}, nil
	})
}
