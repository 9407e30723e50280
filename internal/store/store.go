// Package store connects to Valkey at a URL, and retries a command when that is safe. The
// URL is
//
//	valkey://[user[:password]@]host[:port][,host[:port]…][?option=value[&…]]
//
// valkeys:// is the same over TLS, verified against the system's roots; redis:// and
// rediss:// are accepted too. The options are
//
//	cluster=true     the hosts are nodes of a cluster, or its configuration endpoint
//	iam=CACHE        log in by IAM to the ElastiCache cache of that name; requires TLS
//	                 and a user without a password
//	region=REGION    the cache's region; default AWS_REGION
//	serverless=true  the cache is serverless
//
// # Connecting
//
// Options.Dial bounds connecting, with TLS and log-in. Options.Write bounds an answer. An
// attempt to connect continues when its call stops waiting, and the next call uses the
// connection. For a call with a context of WithTimeouts, a separate timeout bounds the
// waits for connections. A node counts as unavailable after such a wait without a
// connection, after an attempt that took Options.Dial, and when a connection in use gets
// no answer. Then calls wait for a connection to it within their timeout for answers,
// until an attempt succeeds.
//
// # Settings
//
// The client's settings other than the timeouts of Options:
//
//   - A connection is logged in before the library gets it. The library's own log-in is
//     not sent: it reads the stored reply.
//   - A call in flight has its own connection (Options.Pooled, for the check). On a
//     shared one, every later call waits behind a late reply. A single node sees one
//     connection from each client. A node of a cluster sees one for the checks of its
//     shard and may see one more, over which the client asks for the topology.
//   - Without Options.Pooled, all calls share one connection to a node.
//   - Buffers of 16 KiB, where the library's default is half a megabyte each: a check is
//     a few hundred bytes.
//   - At most 3 MOVED or ASK redirections a call, so that nodes that disagree cannot keep
//     it going.
//   - No client-side cache (CLIENT TRACKING) and no CLIENT SETINFO: ElastiCache
//     serverless has neither.
//   - The library itself retries read-only commands after a network error, with
//     Options.Pooled at most twice. It never retries a script, since each lost reply
//     would count a call again. Retry does, once.
//   - IAM tokens are signed here for each connection, from the current AWS_ACCESS_KEY_ID,
//     AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. A token is valid for 15 minutes and a
//     connection for 12 hours; after 11 hours it logs in again with a new token.
package store

import (
	"cmp"
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
	// SkipPing, with Pooled, does not check that a single node answers, which saves a
	// round trip at the start. The first command then returns the error.
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

// applied returns option with the settings that do not depend on the URL. The package
// comment gives the reasons.
func (o Options) applied(option valkey.ClientOption) valkey.ClientOption {
	option.Dialer.Timeout = cmp.Or(o.Dial, defaultTimeout)
	option.ConnWriteTimeout = cmp.Or(o.Write, defaultTimeout)
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

// client is a valkey.Client whose Close also ends the attempts to connect.
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
		return c, nil // the nodes of a cluster have already answered a query for the slots
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
// pool for a single node connects at its first call, since the library would not use the
// connection that it makes at the start.
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
			d.prepare(address) // the library needs a connection for the topology and one for calls
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

// Version returns the server's name and version, such as "valkey 8.1.0". It sends HELLO,
// because not all users may run INFO.
func Version(ctx context.Context, client valkey.Client) (string, error) {
	reply, err := client.Do(ctx, client.B().Hello().Build()).AsMap()
	if err != nil {
		return "", fmt.Errorf("get the Valkey version: %w", err)
	}
	server, version := reply["server"], reply["version"]
	name, err := server.ToString()
	if err != nil {
		return "", fmt.Errorf("get the Valkey version: %w", err)
	}
	number, err := version.ToString()
	if err != nil {
		return "", fmt.Errorf("get the Valkey version: %w", err)
	}
	return name + " " + number, nil
}
