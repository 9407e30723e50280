// Package limiter is a sliding-window rate limiter on Valkey: exact, atomic, with one
// round trip per call. It has the algorithms twice: as Lua scripts for Valkey and as a
// Model in Go, of which the scripts are the translation. It knows limits and the keys of
// states, but no callers or policies.
//
// # Algorithms
//
// Log keeps the time of every admitted call (the "sliding window log"). So no rolling
// window [t, t+Window) ever admits more than Limit.Requests, and the same cost passes
// exactly at RetryAfter. The times are not a sorted set but an array in one string. To
// admit cost c under limit n, only the c-th oldest of the newest n times matters, so the
// decision reads one slot.
//
// With more Requests than Slots, a slot stands for several calls and has the time of the
// latest. The limit still holds in every rolling window, and less than one slot's calls
// are withheld: only the oldest slot in the window can hold calls that have left it.
//
// Counter counts the calls of two adjacent fixed windows. It weights the previous count
// by the part of that window that the rolling window still overlaps. Cloudflare described
// it in 2017 ("How we built rate limiting capable of scaling to millions of domains"). It
// assumes that calls were spread evenly over the previous window. After a burst at the
// end of one window, a rolling window may admit up to twice the limit. Finer buckets do
// not change that while the oldest one is weighted.
//
// TokenBucket is the generic cell rate algorithm (ITU-T I.371). FixedWindow is a count
// per aligned or calendar window. Both may admit up to twice the limit in a rolling
// window. docs/algorithms.md has the formulae and the measured accuracy.
//
// # Consistency
//
// One Take is one EVALSHA on one key, so calls of a subject are decided one after another.
// The cost is taken from all limits or from none. Peek and PeekMany run a script without a
// command that writes. A denied call writes nothing, unless a limit counts it, the list of
// limits has changed or the clock stepped back.
//
// The server's clock decides (TIME, microseconds); callers' clocks are never read. When it
// steps back, a log's clock continues from its newest call and a bucket's debt is capped,
// so nothing is freed early. A counter and a fixed window move their counts back with the
// clock, and a fixed window starts again from zero at the same boundary.
//
// A list of limits may change from call to call, and nothing that was counted is
// forgotten. The state has a part for each limit that was ever named and may still count
// something; Model describes how a list finds its parts.
//
// # Failures
//
// While Valkey is unavailable, Take returns an error, which means that no decision was
// made. The caller of Take decides what to do. After an error the cost may or may not have
// been taken. A failover can lose what the replica did not have yet: limits then admit too
// much for one window. A damaged state counts as an empty one.
//
// # Cost and memory
//
// A Take costs one round trip for any number of limits. A limit of calls counts each call
// as 1. A settlement may take what does not fit: it is owed, and the limit denies until it
// has drained.
//
// A subject has one string: 4 bytes, and its parts, at most 32. A counter, token bucket or
// fixed window is a part of 30 bytes. All enforced Log limits with the same unit and the
// same number of calls in a slot share one part: 56 bytes, and 4, 5 or 6 bytes for each
// slot (longest window below 9 minutes, below 38 hours, up to 366 days). A log has room
// for half as many slots again plus 8, at most for a tenth more than its largest limit
// needs plus 1; a log of one slot has room for 3. A deficit, which some refunds need,
// takes 11 bytes; a log has at most 64. Valkey deletes a state at most two windows after
// the last admission.
package limiter
