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
// Options.Dial bounds connecting, with TLS and log-in. Options.Write bounds an answer.
// With Options.Pooled, a goroutine connects, and continues when its call stops waiting.
// For a call with a context of WithTimeouts, a separate timeout bounds the waits for
// connections. A node counts as unavailable after such a wait without a connection, after
// an attempt that took Options.Dial, and when a connection in use gets no answer. Then
// calls wait for a connection to it within their timeout for answers, until an attempt
// succeeds.
//
// # Settings
//
// The client's settings other than the timeouts of Options:
//
//   - With Options.Pooled, for the functions, a call in flight has its own connection. On
//     a shared one, every later call waits behind a late reply. A single node sees one
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
	"errors"
	"fmt"
	"strings"
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
}

const (
	defaultTimeout  = 100 * time.Millisecond
	bufferSize      = 16 << 10
	maxRedirections = 3
	oneConnection   = -1 // the exponent of a power of two; 0 would mean the library's default
	maxReadRetries  = 2
)

// Open connects to the Valkey at rawURL and checks that it answers. Errors contain the
// address, never the password. The timeouts of o apply in addition to ctx.
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
	option.ConnWriteTimeout = o.answer()
	option.DisableAutoPipelining = o.Pooled
	option.PipelineMultiplex = oneConnection
	option.ReadBufferEachConn, option.WriteBufferEachConn = bufferSize, bufferSize
	option.ClusterOption.MaxMovedRedirections = maxRedirections
	option.DisableCache = true
	option.ClientSetInfo = valkey.DisableClientSetInfo
	if o.Pooled {
		option.RetryDelay = briefRetry
		option.ConnWriteTimeout = max(option.Dialer.Timeout, option.ConnWriteTimeout) // bounds a log-in too
	}
	return option
}

func (o Options) answer() time.Duration { return cmp.Or(o.Write, defaultTimeout) }

// briefRetry makes the library give up a read-only command after maxReadRetries. By
// default it retries until the context ends, which leaves a check no time. One retry
// suffices for a closed connection.
func briefRetry(attempts int, _ valkey.Completed, _ error) time.Duration {
	if attempts > maxReadRetries {
		return -1
	}
	return 0
}

func (o Options) connect(ctx context.Context, option valkey.ClientOption) (valkey.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, option.Dialer.Timeout+o.answer())
	defer cancel()
	c := newClient(option, o.answer())
	c.single = c.single && o.Pooled
	option.DialCtxFn = c.dial
	err := c.open(ctx, option)
	if err != nil {
		c.cancel()
		return nil, fmt.Errorf("connect to Valkey at %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	if !o.Pooled {
		return c.Client, nil
	}
	return c, nil
}

// open connects to a cluster, whose nodes answer a query for the slots, or to a single
// node, which answers a PING.
func (c *client) open(ctx context.Context, option valkey.ClientOption) error {
	library, err := valkey.NewClient(option)
	c.Client = library
	if _, ok := errors.AsType[*missingError](err); ok {
		// A pool would not use the connection that the library makes at the start.
		return c.await(ctx, option.InitAddress[0])
	}
	if err == nil && option.ForceSingleClient {
		if err = library.Do(ctx, library.B().Ping().Build()).Error(); err != nil {
			library.Close()
		}
	}
	return err
}

// Version returns the server's name and version, such as "valkey 8.1.0". It sends HELLO,
// because not all users may run INFO, with the protocol that the client has agreed on:
// miniredis needs one.
func Version(ctx context.Context, client valkey.Client) (string, error) {
	reply, err := client.Do(ctx, client.B().Hello().Protover(3).Build()).AsMap()
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
