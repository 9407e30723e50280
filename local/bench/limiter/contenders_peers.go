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
	hotLimit  = 1_000_000_000 // of the one whose checks are many
	denyLimit = 1             // of a subject that one check fills
)

// peers lists published limiters for Go, each with the client that it is made for.
func peers(s *stadium) ([]*contender, error) {
	var contenders []*contender
	for _, enter := range []func(*stadium) (*contender, error){valkeyLimiter, redisRate, ulule,
		throttle, redisStore} {
		c, err := enter(s)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, c)
	}
	return contenders, nil
}

// limited sets a contender up with each of the limits.
func (c *contender) limited(with func(limit int) (*check, error)) (*contender, error) {
	for limit, side := range map[int]**check{limit: &c.allowed, denyLimit: &c.denied, hotLimit: &c.hot} {
		check, err := with(limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		*side = check
	}
	return c, nil
}

func valkeyLimiter(s *stadium) (*contender, error) {
	c := &contender{name: "valkeylimiter",
		note: "valkey-go's fixed window from the first call, client's clock"}
	client, err := s.valkeyGo(c)
	if err != nil {
		return nil, err
	}
	return c.limited(func(limit int) (*check, error) {
		l, err := valkeylimiter.NewRateLimiter(valkeylimiter.RateLimiterOption{
			ClientBuilder: func(valkey.ClientOption) (valkey.Client, error) {
				return client, nil
			}, Limit: limit, Window: s.window,
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

// bucketFill is what is taken from a bucket of `limit` beforehand. Peers keep its key
// until it is full again, which must be after the run.
const bucketFill = 75

func redisRate(s *stadium) (*contender, error) {
	c := &contender{name: "redis_rate", note: "go-redis/redis_rate, GCRA"}
	l := redis_rate.NewLimiter(s.goRedis(c))
	return c.limited(func(most int) (*check, error) {
		quota := redis_rate.Limit{Rate: most, Burst: most, Period: s.window}
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

func ulule(s *stadium) (*contender, error) {
	c := &contender{name: "ulule", note: "ulule/limiter, fixed window from the first call"}
	store, err := ululestore.NewStore(s.goRedis(c))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.limited(func(limit int) (*check, error) {
		l := limiter.New(store, limiter.Rate{Period: s.window, Limit: int64(limit)})
		return &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				result, err := l.Get(ctx, subject)
				return !result.Reached, err
			},
			verdict: func(leaves []string) bool { return number(leaves[0]) <= int64(limit) },
		}, nil
	})
}

func throttle(s *stadium) (*contender, error) {
	c := &contender{name: "throttled",
		note:     "throttled/throttled, GCRA in the client by compare-and-swap, two round trips when allowed",
		dialogue: true}
	store, err := throttledstore.NewCtx(s.goRedis(c), "throttled:")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c.limited(func(most int) (*check, error) {
		interval := s.window / time.Duration(most)
		l, err := throttled.NewGCRARateLimiterCtx(store,
			throttled.RateQuota{MaxRate: throttled.PerDuration(most, s.window), MaxBurst: most - 1})
		if err != nil {
			return nil, err
		}
		take := func(ctx context.Context, subject string, calls int) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, subject, calls)
			return !limited, err
		}
		check := &check{
			take: func(ctx context.Context, subject string) (bool, error) { return take(ctx, subject, 1) },
			// TIME's seconds and microseconds, and the time at which the bucket would be
			// full again.
			verdict: func(leaves []string) bool {
				now := number(leaves[0])*int64(time.Second) + number(leaves[1])*int64(time.Microsecond)
				return number(leaves[2])+int64(interval)-int64(s.window) <= now
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

var errTake = errors.New("the store refused a token without an error")

func redisStore(s *stadium) (*contender, error) {
	// Its own pool opens a connection for each call.
	c := &contender{name: "go_redisstore",
		note: "sethvargo/go-redisstore, fixed window from the first call, client's clock, given a lasting " +
			"connection"}
	pool := s.redigo(c)
	return c.limited(func(limit int) (*check, error) {
		store, err := redisstore.NewWithPool(&redisstore.Config{Tokens: uint64(limit),
			Interval: s.window}, pool)
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
