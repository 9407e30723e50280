package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Options has timeouts and the kind of connections. Zero durations mean the defaults.
type Options struct {
	Dial  time.Duration // to connect, TLS and log-in included; default 100 ms
	Write time.Duration // to answer a command; default 100 ms
	// Pooled gives each call in flight its own connection, so that a call that timed out
	// does not delay later ones.
	Pooled bool
	// SkipPing, with Pooled, does not check that a single Valkey answers, which saves one
	// round trip at the start. The first command finds out.
	SkipPing bool
}

const (
	defaultTimeout  = 100 * time.Millisecond
	bufferSize      = 16 << 10
	maxRedirections = 3
	oneConnection   = -1 // the exponent of a power of two; 0 would mean the library's default
	maxReadRetries  = 2
)

// Open connects to the Valkey at rawURL and checks that it answers, unless o.SkipPing.
// Errors contain the address, never the password. The timeouts of o apply in addition to
// ctx.
func Open(ctx context.Context, rawURL string, o Options) (valkey.Client, error) {
	option, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	return o.connect(ctx, o.applied(option))
}

// applied returns the option with the settings that do not depend on the URL. doc.go
// gives the reasons.
func (o Options) applied(option valkey.ClientOption) valkey.ClientOption {
	option.Dialer.Timeout = orDefault(o.Dial)
	option.ConnWriteTimeout = orDefault(o.Write)
	option.DisableAutoPipelining = o.Pooled
	option.PipelineMultiplex = oneConnection
	option.ReadBufferEachConn, option.WriteBufferEachConn = bufferSize, bufferSize
	option.ClusterOption.MaxMovedRedirections = maxRedirections
	option.DisableCache = true
	option.ClientSetInfo = valkey.DisableClientSetInfo
	if o.Pooled {
		option.RetryDelay = briefRetry
	}
	return option
}

// briefRetry makes the library give up a read-only command after maxReadRetries. By
// default it retries until the context ends, which leaves a check no time. One retry
// suffices for a closed connection.
func briefRetry(attempts int, _ valkey.Completed, _ error) time.Duration {
	if attempts > maxReadRetries {
		return -1
	}
	return 0
}

func orDefault(d time.Duration) time.Duration {
	if d == 0 {
		return defaultTimeout
	}
	return d
}

// client also ends the attempts to connect when it is closed.
type client struct {
	valkey.Client
	dialer *dialer
}

func (c *client) Close() {
	c.Client.Close()
	c.dialer.close()
}

func (o Options) connect(ctx context.Context, option valkey.ClientOption) (valkey.Client, error) {
	c, err := newClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	if !option.ForceSingleClient || o.SkipPing && o.Pooled {
		return c, nil // The nodes of a cluster have already answered a query for the slots.
	}
	ctx, cancel := context.WithTimeout(ctx, option.Dialer.Timeout+option.ConnWriteTimeout)
	defer cancel()
	if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
		c.Close()
		return nil, fmt.Errorf("ping Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	return c, nil
}

var errNotYet = errors.New("no connection yet")

// newClient connects to a cluster, or to a single node whose calls share a connection. A
// pool for one node connects at its first call, since the library would not use its own
// first connection.
func newClient(option valkey.ClientOption) (*client, error) {
	d := newDialer(option)
	lazy := option.DisableAutoPipelining && option.ForceSingleClient
	var started atomic.Bool
	started.Store(!lazy)
	option.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer,
		_ *tls.Config) (net.Conn, error) {
		if !started.Load() {
			return nil, errNotYet
		}
		return d.dial(ctx, address)
	}
	if option.DisableAutoPipelining && !option.ForceSingleClient {
		for _, address := range option.InitAddress {
			d.prepare(address) // the library needs one for the topology and one for calls
			d.prepare(address)
		}
	}
	c, err := valkey.NewClient(option)
	if err != nil && (!lazy || !errors.Is(err, errNotYet)) {
		d.close()
		return nil, err
	}
	started.Store(true)
	return &client{c, d}, nil
}
