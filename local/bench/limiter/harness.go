package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
)

// measuredLimiter is a limiter under measurement, or a plain command for comparison.
// Each has a database of its own, so that all tables have one size.
type measuredLimiter struct {
	name string
	note string // what it is
	keys int    // how many subjects take turns

	allowed, denied *check // checks that are always allowed and always denied
	// checks of a single subject that are always allowed; nil where the limit is too low
	// for that
	hot *check

	keyless  bool // its commands name no key
	windows  bool // it also counts what was taken in the previous window
	stamped  bool // calls with the same client clock would count as one
	dialogue bool // a check that is allowed takes several round trips, which cannot be encoded beforehand

	ping     func(context.Context) error // PING through the same client
	recorder *recorder
	database int
}

// check is one limit of a measuredLimiter.
type check struct {
	take func(ctx context.Context, subject string) (allowed bool, err error)
	// verdict says whether the values of a raw reply mean allowed; nil when nothing is
	// ever denied.
	verdict func(leaves []string) bool
	// fill makes the subject look as if so many calls had been allowed; nil when one take
	// is enough. Before the measurement subjects are filled evenly with `from` to `to`
	// calls.
	fill     func(ctx context.Context, subject string, calls int) error
	from, to int
}

// harness has the server's address and the window that all measured limiters share.
type harness struct {
	address  string
	window   time.Duration
	keys     int
	database int // number of the database given last
	closers  []func()
}

func (h *harness) close() {
	for _, closer := range h.closers {
		closer()
	}
}

// enter gives the limiter its own database.
func (h *harness) enter(c *measuredLimiter) {
	h.database++
	c.database, c.recorder = h.database, &recorder{}
	if c.keys == 0 {
		c.keys = h.keys
	}
}

func (h *harness) valkeyGo(c *measuredLimiter) (valkey.Client, error) {
	h.enter(c)
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{h.address}, SelectDB: c.database, ForceSingleClient: true, DisableCache: true,
		ClientSetInfo: valkey.DisableClientSetInfo,
		// One connection, so that recordings hold no handshake.
		PipelineMultiplex: -1,
		Dialer:            net.Dialer{KeepAlive: -1}, // It would PING idle connections.
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

func (h *harness) goRedis(c *measuredLimiter) *goredis.Client {
	h.enter(c)
	client := goredis.NewClient(&goredis.Options{Addr: h.address, DB: c.database, Dialer: c.recorder.dial})
	h.closers = append(h.closers, func() { _ = client.Close() })
	c.ping = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	return client
}

func (h *harness) redigo(c *measuredLimiter) *redis.Pool {
	h.enter(c)
	pool := &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", h.address, redis.DialDatabase(c.database),
			redis.DialContextFunc(c.recorder.dial))
	}}
	h.closers = append(h.closers, func() { _ = pool.Close() })
	c.ping = func(context.Context) (err error) {
		conn := pool.Get()
		defer func() { err = errors.Join(err, conn.Close()) }()
		_, err = conn.Do("PING")
		return err
	}
	return pool
}

// millis returns the clock of this machine, which some limiters send along.
func millis() int64 { return time.Now().UnixMilli() }
