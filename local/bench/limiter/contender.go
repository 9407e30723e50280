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

// contender is a limiter under measurement, or a plain command for comparison. Each has a
// database of its own, so that all tables have one size.
type contender struct {
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

// check is one limit of a contender.
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

// stadium is where contenders meet: the server and the limits that all are given.
type stadium struct {
	address  string
	window   time.Duration
	keys     int
	database int // the last one taken
	closers  []func()
}

func (s *stadium) close() {
	for _, closer := range s.closers {
		closer()
	}
}

// enter gives the contender a database.
func (s *stadium) enter(c *contender) {
	s.database++
	c.database, c.recorder = s.database, &recorder{}
	if c.keys == 0 {
		c.keys = s.keys
	}
}

func (s *stadium) valkeyGo(c *contender) (valkey.Client, error) {
	s.enter(c)
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{s.address}, SelectDB: c.database, ForceSingleClient: true, DisableCache: true,
		ClientSetInfo: valkey.DisableClientSetInfo,
		// One connection, whose first words are not in what is recorded.
		PipelineMultiplex: -1,
		Dialer:            net.Dialer{KeepAlive: -1}, // It would PING idle connections.
		DialCtxFn: func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return c.recorder.dial(ctx, "tcp", address)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	s.closers = append(s.closers, client.Close)
	c.ping = func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }
	return client, nil
}

func (s *stadium) goRedis(c *contender) *goredis.Client {
	s.enter(c)
	client := goredis.NewClient(&goredis.Options{Addr: s.address, DB: c.database, Dialer: c.recorder.dial})
	s.closers = append(s.closers, func() { _ = client.Close() })
	c.ping = func(ctx context.Context) error { return client.Ping(ctx).Err() }
	return client
}

func (s *stadium) redigo(c *contender) *redis.Pool {
	s.enter(c)
	pool := &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", s.address, redis.DialDatabase(c.database),
			redis.DialContextFunc(c.recorder.dial))
	}}
	s.closers = append(s.closers, func() { _ = pool.Close() })
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
