// Package store connects to the Valkey of a URL, and retries a command when that is safe.
// The URL is
//
//	valkey://[user[:password]@]host[:port][,host[:port]…][?option=value[&…]]
//
// valkeys:// is the same over TLS, verified against the system's roots; redis:// and
// rediss:// are accepted too. The options are
//
//	cluster=true     the hosts are nodes of a cluster, or its configuration endpoint
//	iam=CACHE        log in to the ElastiCache of that name by IAM; needs TLS and a
//	                 user, takes no password
//	region=REGION    where that cache is; AWS_REGION unless given
//	serverless=true  that cache is a serverless one
//
// # Connecting
//
// Options.Dial bounds connecting, with TLS and log-in. Options.Write bounds an answer. An
// attempt to connect continues when its call stops waiting, and the next call uses the
// connection. A call with a context of WithTimeouts waits for connections on a separate
// time. A node counts as away after such a wait without a connection, after an attempt
// that took Options.Dial, and when a connection in use gets no answer. Then calls wait
// for a connection to it within their time for answers, until an attempt succeeds.
//
// # Settings
//
// The client's settings other than the time-outs of Options:
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
//   - The library itself tries read-only commands again after a network error, with
//     Options.Pooled twice at most. It never does so with a script: a lost reply would
//     count again and again. Retry does, once.
//   - IAM tokens are signed here for each connection, from AWS_ACCESS_KEY_ID,
//     AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN as they are then. A token is good for
//     15 minutes, a connection for 12 hours: after 11 hours it logs in again with a new
//     token.
package store
