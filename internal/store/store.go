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

// Options bounds how long Valkey may take. Zero fields mean the defaults.
type Options struct {
	Dial  time.Duration // to connect, TLS and log-in included; default 100 ms
	Write time.Duration // to answer a command; default 100 ms
	// Pooled gives each call in flight a connection of its own, so that one that timed
	// out cannot hold up later ones.
	Pooled bool
	// Unproven, with Pooled, leaves it to the first command to find out whether a single
	// Valkey answers, which saves a start one round trip.
	Unproven bool
}

const (
	defaultTimeout  = 100 * time.Millisecond
	bufferSize      = 16 << 10
	maxRedirections = 3
	oneConnection   = -1 // the library takes it for a power of two, and 0 for a choice of its own
	maxReadRetries  = 2
)

// Open connects to the Valkey at rawURL and makes sure that it answers, unless o says
// otherwise. Errors name the address, never the password. It gives up by the time-outs of
// o, whatever the context.
func Open(ctx context.Context, rawURL string, o Options) (valkey.Client, error) {
	option, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	return o.connect(ctx, o.applied(option))
}

// applied is the option with what does not depend on the URL. doc.go says why.
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

// briefRetry makes the library give up on a read-only command after maxReadRetries; by
// itself it goes on until the context ends, and a check would have no time left. One of
// them suffices for a closed connection.
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
	if !option.ForceSingleClient || o.Unproven && o.Pooled {
		return c, nil // Nodes of a cluster have said which of them has which slot.
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

// newClient connects to a cluster, and to a single node when its calls share a
// connection. A pool of one node connects for its first call: the library's own first
// connection would not be used.
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
			d.prepare(address) // The library needs one for the topology and one for calls.
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
