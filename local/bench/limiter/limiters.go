package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
)

// measuredLimiter is a limiter under measurement, or a plain command for comparison.
// Each has its own database, so that all hash tables have the same size.
type measuredLimiter struct {
	name string
	note string // description
	keys int    // number of subjects that take turns

	allowed, denied *check // checks that are always allowed and always denied

	keyless bool // its commands have no key
	windows bool // it also counts the calls of the previous window
	stamped bool // it counts calls with the same client clock as one

	ping     func(context.Context) error // PING through the same client
	recorder *recorder
	database int
}

// check is one limit of a measuredLimiter.
type check struct {
	take func(ctx context.Context, subject string) (allowed bool, err error)
	// verdict reports whether the values of a raw reply mean allowed; nil if every check
	// is allowed.
	verdict func(leaves []string) bool
	// fill sets the counts of a subject as after a number of allowed calls; nil if one
	// take is enough. Before the measurement, subjects are filled evenly with `from` to
	// `to` calls.
	fill     func(ctx context.Context, subject string, calls int) error
	from, to int
}

// fillOnce fills a subject to one of the levels, 0 to fillLevels-1.
func (k *check) fillOnce(ctx context.Context, subject string, level int) error {
	if k.fill == nil {
		_, err := k.take(ctx, subject)
		return err
	}
	return k.fill(ctx, subject, k.from+(k.to-k.from)*level/(fillLevels-1))
}

// references are the limiters that ratios refer to. They are always measured.
var references = []string{"ping", "evalsha", "upstash"}

// choose sets up the limiters that o.only selects, and the references.
func choose(h *harness, o options) ([]*measuredLimiter, error) {
	var chosen []*measuredLimiter
	for _, group := range []func(*harness) ([]*measuredLimiter, error){baselines, ours, renderings, peers} {
		limiters, err := group(h)
		if err != nil {
			return nil, err
		}
		for _, c := range limiters {
			if o.only == nil || o.only.MatchString(c.name) || slices.Contains(references, c.name) {
				chosen = append(chosen, c)
			}
		}
	}
	return chosen, nil
}

// harness connects limiters to the server, and has the window that they share.
type harness struct {
	address  string
	window   time.Duration
	keys     int // subjects of a limiter whose state is small
	database int // number of the database assigned last
	closers  []func()
}

// setUpAll calls the functions, each of which sets up a limiter.
func (h *harness) setUpAll(setUps ...func(*harness) (*measuredLimiter, error)) ([]*measuredLimiter, error) {
	var limiters []*measuredLimiter
	for _, setUp := range setUps {
		c, err := setUp(h)
		if err != nil {
			return nil, err
		}
		limiters = append(limiters, c)
	}
	return limiters, nil
}

func (h *harness) close() {
	for _, closer := range h.closers {
		closer()
	}
}

// assign gives the limiter its database and its recorder.
func (h *harness) assign(c *measuredLimiter) {
	h.database++
	c.database, c.recorder = h.database, &recorder{}
	if c.keys == 0 {
		c.keys = h.keys
	}
}

// valkeyGo returns a client of valkey-go for the limiter.
func (h *harness) valkeyGo(c *measuredLimiter) (valkey.Client, error) {
	h.assign(c)
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{h.address}, SelectDB: c.database, ForceSingleClient: true, DisableCache: true,
		ClientSetInfo: valkey.DisableClientSetInfo,
		// One connection, so that recordings have no handshakes.
		PipelineMultiplex: -1,
		Dialer:            net.Dialer{KeepAlive: -1}, // otherwise it sends PINGs on idle connections
		DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.recorder.dial(ctx, "tcp", address)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	h.closers = append(h.closers, client.Close)
	c.ping = func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }
	return client, nil
}

// goRedis returns a client of go-redis for the limiter.
func (h *harness) goRedis(c *measuredLimiter) *goredis.Client {
	h.assign(c)
	client := goredis.NewClient(&goredis.Options{Addr: h.address, DB: c.database, Dialer: c.recorder.dial})
	h.closers = append(h.closers, func() { _ = client.Close() })
	c.ping = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	return client
}

// millis returns the client's clock in Unix milliseconds, which some limiters send.
func millis() int64 { return time.Now().UnixMilli() }

// scripted returns a check that runs one script, which returns one or several integers.
func scripted(client valkey.Client, lua string, allowed func([]int64) bool,
	arguments func(subject string) (keys, arguments []string)) *check {
	script := valkey.NewLuaScript(lua)
	return &check{
		take: func(ctx context.Context, subject string) (bool, error) {
			keys, values := arguments(subject)
			reply, err := integers(script.Exec(ctx, client, keys, values))
			return err == nil && allowed(reply), err
		},
		verdict: func(leaves []string) bool {
			values := make([]int64, len(leaves))
			for i, leaf := range leaves {
				values[i] = number(leaf)
			}
			return allowed(values)
		},
	}
}

// integers returns a reply of one or several integers as a slice.
func integers(result valkey.ValkeyResult) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if message.IsArray() {
		return message.AsIntSlice()
	}
	value, err := message.AsInt64()
	return []int64{value}, err
}

func decimals(values ...int64) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = strconv.FormatInt(v, 10)
	}
	return texts
}
