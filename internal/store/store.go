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
	Dial  time.Duration // to connect, TLS included, and again to log in; default 100 ms
	Write time.Duration // to answer a command; default 100 ms
	// Pooled gives each call in flight a connection of its own, so that one that timed out cannot hold up later ones.
	Pooled bool
	// Unproven, with Pooled, leaves it to the first command to find out whether a single Valkey answers, which saves a start one round trip.
	Unproven bool
}

const (
	defaultTimeout  = 100 * time.Millisecond
	bufferSize      = 16 << 10
	maxRedirections = 3
	oneConnection   = -1 // the library takes it for a power of two, and 0 for a choice of its own
	maxReadRetries  = 2
)

// Open connects to the Valkey at rawURL and makes sure that it answers, unless o says otherwise. Errors name the address, never the password. It
// gives up by the time-outs of o, each of which may pass twice, whatever the context.
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

// briefRetry makes the library give up on a read-only command after maxReadRetries; by itself it goes on until the context ends, and a check
// would have no time left. One of them suffices for a closed connection.
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

func (o Options) connect(ctx context.Context, option valkey.ClientOption) (valkey.Client, error) {
	client, err := newClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	if !option.ForceSingleClient || o.Unproven && o.Pooled {
		return client, nil // Nodes of a cluster have told which of them has which slot.
	}
	ctx, cancel := context.WithTimeout(ctx, option.Dialer.Timeout+option.ConnWriteTimeout)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("ping Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	return client, nil
}

var errNotYet = errors.New("no connection yet")

// newClient does without the connection that the library opens for a start when nothing would use it: a pool of one node dials its own.
func newClient(option valkey.ClientOption) (valkey.Client, error) {
	if !option.DisableAutoPipelining || !option.ForceSingleClient {
		return valkey.NewClient(option)
	}
	var started atomic.Bool
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, t *tls.Config) (net.Conn, error) {
		if !started.Load() {
			return nil, errNotYet
		}
		if t != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: t}).DialContext(ctx, "tcp", address)
		}
		return dialer.DialContext(ctx, "tcp", address)
	}
	client, err := valkey.NewClient(option)
	if !errors.Is(err, errNotYet) {
		return client, err
	}
	started.Store(true)
	return client, nil
}
