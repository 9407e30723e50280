package main

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

var (
	//go:embed zset.lua
	zsetLua string
	//go:embed upstash.lua
	upstashLua string
)

// baselines sets up plain commands, whose rates bound those of the limiters.
func baselines(h *harness) ([]*measuredLimiter, error) {
	ping := &measuredLimiter{name: "ping", note: "PING", keyless: true}
	evalsha := &measuredLimiter{name: "evalsha",
		note: "E: EVALSHA of 'return 1' with one key and three arguments"}
	limiters := []*measuredLimiter{ping, evalsha}
	script := valkey.NewLuaScript("return 1")
	for _, c := range limiters {
		client, err := h.valkeyGo(c)
		if err != nil {
			return nil, err
		}
		c.allowed = &check{take: func(ctx context.Context, subject string) (bool, error) {
			if c == ping {
				return true, client.Do(ctx, client.B().Ping().Build()).Error()
			}
			return true, script.Exec(ctx, client, []string{subject}, []string{"100", "900000", "1"}).Error()
		}}
	}
	return limiters, nil
}

// renderings sets up algorithms whose publishers have no limiter for Go. They are written
// here after their documentation.
func renderings(h *harness) ([]*measuredLimiter, error) {
	limiters, err := h.setUpAll(upstash, envoy, zsetLog)
	for _, c := range limiters {
		c.note = "our rendering: " + c.note
	}
	return limiters, err
}

func upstash(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "upstash",
		note: "Upstash's sliding window of two counters, approximate, client's clock", windows: true}
	client, err := h.valkeyGo(c)
	if err != nil {
		return nil, err
	}
	window := h.window.Milliseconds()
	return c.setChecks(func(limit int) (*check, error) {
		return scripted(client, upstashLua, func(reply []int64) bool {
			return reply[0] >= 0
		}, func(subject string) ([]string, []string) {
			now := millis()
			prefix := "@upstash/ratelimit:" + subject + ":"
			return []string{prefix + strconv.FormatInt(now/window, 10),
					prefix + strconv.FormatInt(now/window-1, 10)},
				decimals(int64(limit), now, window, 1)
		}), nil
	})
}

func envoy(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "envoy",
		note: "Envoy's INCRBY and EXPIRE in one flush, fixed window, not atomic, client's clock"}
	client, err := h.valkeyGo(c)
	if err != nil {
		return nil, err
	}
	window, seconds := h.window.Milliseconds(), int64(h.window/time.Second)
	return c.setChecks(func(limit int) (*check, error) {
		allowed := func(count int64) bool { return count <= int64(limit) }
		return &check{
			take: func(ctx context.Context, subject string) (bool, error) {
				now := millis()
				key := "domain_customer_" + subject + "_" + strconv.FormatInt(now-now%window, 10)
				results := client.DoMulti(ctx, client.B().Incrby().Key(key).Increment(1).Build(),
					client.B().Expire().Key(key).Seconds(seconds).Build())
				count, err := results[0].AsInt64()
				if err == nil {
					err = results[1].Error()
				}
				return err == nil && allowed(count), err
			},
			verdict: func(leaves []string) bool { return allowed(number(leaves[0])) },
		}, nil
	})
}

// zsetLog is a log with a member for each call. Calls in the same millisecond would share
// a member, so the clock that they send advances with each call.
func zsetLog(h *harness) (*measuredLimiter, error) {
	c := &measuredLimiter{name: "zset100", note: "a log in a sorted set, limit 100, client's clock",
		keys: max(h.keys/4, 1), stamped: true}
	client, err := h.valkeyGo(c)
	if err != nil {
		return nil, err
	}
	seconds, last := int64(h.window/time.Second), int64(0)
	setUp := func(from, to int) *check {
		check := scripted(client, zsetLua, func(reply []int64) bool {
			return reply[0] == 1
		}, func(subject string) ([]string, []string) {
			last = max(last+1, millis())
			return []string{"ratelimit:sliding:" + subject}, decimals(limit, seconds, last)
		})
		check.from, check.to = from, to
		check.fill = func(ctx context.Context, subject string, calls int) error {
			key, now := "ratelimit:sliding:"+subject, millis()
			add := client.B().Zadd().Key(key).ScoreMember()
			for i := range int64(calls) {
				// as long as the members that the script adds
				add = add.ScoreMember(float64(now-i), fmt.Sprintf("%d:0.%014d", now-i, i))
			}
			results := client.DoMulti(ctx, add.Build(), client.B().Expire().Key(key).Seconds(seconds).Build())
			if err := results[0].Error(); err != nil {
				return err
			}
			return results[1].Error()
		}
		return check
	}
	c.allowed, c.denied = setUp(limit/10, limit*6/10), setUp(limit, limit)
	return c, nil
}
