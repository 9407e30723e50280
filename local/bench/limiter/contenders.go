// Package limiter compares Tidegate's limiter with others on one Valkey server: see
// bench_test.go. Another limiter to compare, such as the next version of ours, is one
// more row of contenders.
package limiter

import (
	"context"
	"crypto/tls"
	_ "embed" // the scripts
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

var (
	//go:embed zset.lua
	zsetLua string
	//go:embed upstash.lua
	upstashLua string
)

// take makes one call of a caller and reports whether it is allowed.
type take func(ctx context.Context, caller string) (allowed bool, err error)

// connect connects a contender. It returns what makes calls within a limit.
type connect func(*contender, *site) (func(most int64) (take, error), error)

// contender is a limiter under measurement, or a plain command for comparison. It has a
// database of its own, so that all hash tables have the same size.
type contender struct {
	name    string
	connect connect

	most     int64 // limit of the callers whose calls are allowed
	full     int64 // limit of the callers whose calls are denied; 0 if every call is allowed
	from, to int64 // calls that allowed callers made before, spread evenly
	fewer    int   // there are so many times fewer callers, since each takes much memory
	windows  bool  // it also counts the calls of the previous window

	database        int
	allowed, denied take
	ping            func(context.Context) error // by the same client
	recorder        recorder
}

// contenders returns all contenders. Most counters are measured with a full limit of 1,
// which stays full during a run.
func contenders() []*contender {
	ours := func(algorithm limiter.Algorithm) connect {
		return tidegate(func(window time.Duration, most int64) []limiter.Limit {
			return []limiter.Limit{{Requests: most, Window: window, Algorithm: algorithm}}
		})
	}
	return []*contender{
		{name: "ping", connect: ping},
		{name: "evalsha", connect: evalsha},
		{name: "log100", connect: ours(limiter.Log), most: 100, full: 100, from: 10, to: 60},
		{name: "log10000", connect: ours(limiter.Log), most: 10_000, full: 10_000, from: 1_000, to: 6_000,
			fewer: 100},
		{name: "three_logs", connect: tidegate(threeLogs), most: 100, full: 100, from: 10, to: 60},
		{name: "counter", connect: ours(limiter.Counter), most: 100, full: 1, windows: true},
		{name: "token_bucket", connect: ours(limiter.TokenBucket), most: 100, full: 1, from: 75, to: 75},
		{name: "upstash", connect: upstash, most: 100, full: 1, windows: true},
		{name: "envoy", connect: envoy, most: 100, full: 1},
		{name: "zset100", connect: zset, most: 100, full: 100, from: 10, to: 60, fewer: 4},
		{name: "redis_rate", connect: redisRate, most: 100, full: 1, from: 75, to: 75},
		{name: "ulule", connect: ululeLimiter, most: 100, full: 1},
	}
}

// site is where contenders run, and the window that they share.
type site struct {
	address string
	window  time.Duration
	closers []func()
}

// open connects the contenders.
func (s *site) open(all []*contender) error {
	for i, c := range all {
		c.database, c.fewer = i+1, max(c.fewer, 1)
		c.from, c.to = max(c.from, 1), max(c.to, 1)
		within, err := c.connect(c, s)
		if err == nil {
			c.allowed, err = within(c.most)
		}
		if err == nil && c.full > 0 {
			c.denied, err = within(c.full)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (s *site) close() {
	for _, closer := range s.closers {
		closer()
	}
}

// valkeyGo returns a client of valkey-go with one connection, so that recordings have no
// handshakes.
func (s *site) valkeyGo(c *contender) (valkey.Client, error) {
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{s.address}, SelectDB: c.database, ForceSingleClient: true, DisableCache: true,
		ClientSetInfo: valkey.DisableClientSetInfo, PipelineMultiplex: -1,
		Dialer: net.Dialer{KeepAlive: -1}, // otherwise it sends PINGs on idle connections
		DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.recorder.dial(ctx, "tcp", address)
		},
	})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, client.Close)
	c.ping = func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }
	return client, nil
}

func (s *site) goRedis(c *contender) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: s.address, DB: c.database, Dialer: c.recorder.dial})
	s.closers = append(s.closers, func() { _ = client.Close() })
	c.ping = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	return client
}

// millis returns the client's clock in Unix milliseconds, which some limiters send.
func millis() int64 { return time.Now().UnixMilli() }

func ping(c *contender, s *site) (func(int64) (take, error), error) {
	client, err := s.valkeyGo(c)
	return func(int64) (take, error) {
		return func(ctx context.Context, _ string) (bool, error) {
			return true, client.Do(ctx, client.B().Ping().Build()).Error()
		}, nil
	}, err
}

// evalsha is E: the least that a script with one key and three arguments costs.
func evalsha(c *contender, s *site) (func(int64) (take, error), error) {
	client, err := s.valkeyGo(c)
	script := valkey.NewLuaScript("return 1")
	return func(int64) (take, error) {
		return func(ctx context.Context, caller string) (bool, error) {
			return true, script.Exec(ctx, client, []string{caller}, []string{"100", "900000", "1"}).Error()
		}, nil
	}, err
}

// tidegate is our limiter.
func tidegate(limits func(window time.Duration, most int64) []limiter.Limit) connect {
	return func(c *contender, s *site) (func(int64) (take, error), error) {
		client, err := s.valkeyGo(c)
		return func(most int64) (take, error) {
			l := limiter.New(client, "rl:", limits(s.window, most)...)
			return func(ctx context.Context, caller string) (bool, error) {
				decision, err := l.Take(ctx, caller)
				return decision.Allowed, err
			}, nil
		}, err
	}
}

func threeLogs(window time.Duration, most int64) []limiter.Limit {
	return []limiter.Limit{{Requests: most, Window: window}, {Requests: 1_000, Window: 4 * window},
		{Requests: 50_000, Window: 96 * window}}
}

// upstash is our rendering of Upstash's sliding window of two counters.
func upstash(c *contender, s *site) (func(int64) (take, error), error) {
	client, err := s.valkeyGo(c)
	script, window := valkey.NewLuaScript(upstashLua), s.window.Milliseconds()
	return func(most int64) (take, error) {
		return func(ctx context.Context, caller string) (bool, error) {
			now, prefix := millis(), "@upstash/ratelimit:"+caller+":"
			left, err := script.Exec(ctx, client,
				[]string{prefix + decimal(now/window), prefix + decimal(now/window-1)},
				[]string{decimal(most), decimal(now), decimal(window), "1"}).AsInt64()
			return left >= 0, err
		}, nil
	}, err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// envoy is our rendering of Envoy's rate limit service: two commands in one flush.
func envoy(c *contender, s *site) (func(int64) (take, error), error) {
	client, err := s.valkeyGo(c)
	window := s.window.Milliseconds()
	return func(most int64) (take, error) {
		return func(ctx context.Context, caller string) (bool, error) {
			now := millis()
			key := "domain_customer_" + caller + "_" + decimal(now-now%window)
			results := client.DoMulti(ctx, client.B().Incrby().Key(key).Increment(1).Build(),
				client.B().Expire().Key(key).Seconds(window/1000).Build())
			if err := results[1].Error(); err != nil {
				return false, err
			}
			count, err := results[0].AsInt64()
			return count <= most, err
		}, nil
	}, err
}

// zset is our rendering of a log in a sorted set, as tutorials have it. Calls in the same
// millisecond would share a member, so the clock that they send advances with each call.
func zset(c *contender, s *site) (func(int64) (take, error), error) {
	client, err := s.valkeyGo(c)
	script, last := valkey.NewLuaScript(zsetLua), int64(0)
	return func(most int64) (take, error) {
		return func(ctx context.Context, caller string) (bool, error) {
			last = max(last+1, millis())
			reply, err := script.Exec(ctx, client, []string{"ratelimit:sliding:" + caller},
				[]string{decimal(most), decimal(int64(s.window / time.Second)), decimal(last)}).AsIntSlice()
			return err == nil && reply[0] == 1, err
		}, nil
	}, err
}

func redisRate(c *contender, s *site) (func(int64) (take, error), error) {
	l := redis_rate.NewLimiter(s.goRedis(c))
	return func(most int64) (take, error) {
		quota := redis_rate.Limit{Rate: int(most), Burst: int(most), Period: s.window}
		return func(ctx context.Context, caller string) (bool, error) {
			result, err := l.Allow(ctx, caller, quota)
			return err == nil && result.Allowed > 0, err
		}, nil
	}, nil
}

func ululeLimiter(c *contender, s *site) (func(int64) (take, error), error) {
	store, err := ululestore.NewStore(s.goRedis(c))
	return func(most int64) (take, error) {
		l := ulule.New(store, ulule.Rate{Period: s.window, Limit: most})
		return func(ctx context.Context, caller string) (bool, error) {
			result, err := l.Get(ctx, caller)
			return !result.Reached, err
		}, nil
	}, err
}
