// Package limiter is a sliding-window rate limiter on Valkey: exact, atomic, one round
// trip a call.
//
// # Algorithms
//
// Log keeps the time of every admitted call (the "sliding window log"), so no rolling
// window [t, t+Window) ever admits more than Limit.Requests, and RetryAfter is the exact
// instant at which the same cost passes. It is not kept as a sorted set but as an array
// of times in one string: to admit cost c under limit n only the c-th oldest of the
// newest n times matters, so the decision reads one slot.
//
// With more Requests than Slots a slot stands for several calls and carries the time of
// the latest: the limit still holds in every rolling window, and less than one slot's
// calls are withheld.
//
// Counter keeps two adjacent fixed windows and weights the previous one by how much of it
// the rolling window still overlaps, as Cloudflare described in 2017 ("How we built rate
// limiting capable of scaling to millions of domains"). It assumes that calls were spread
// evenly over the previous window: a burst at the end of one window followed by a greedy
// caller admits up to twice the limit in one rolling window.
//
// TokenBucket is the generic cell rate algorithm (ITU-T I.371), FixedWindow a count per
// aligned or calendar window; both let up to twice the limit into one rolling window.
// docs/algorithms.md has the formulae, what an edit keeps, and measured accuracy.
//
// # Cost and clock
//
// One Take is one EVALSHA on one key: one round trip, whatever the number of limits, all
// of them taken or none. The server's clock decides (TIME, microseconds); callers' clocks
// are never read. When it steps back, a log's clock goes on from its newest call and a
// bucket's debt is capped, so that nothing is freed early; a counter and a fixed window
// move their counts back with it, and a fixed window begins anew at the same boundary.
// State lives at most two windows after the last admission, then Valkey drops it; denied
// calls write nothing.
//
// # Memory
//
// One string for each subject: 2 bytes, 12 for each section, and the section. A counter,
// token bucket or fixed window is a section of 15 bytes. All Log limits with the same
// calls a slot share a section of 30 bytes and 4, 5 or 6 for each slot (longest windows
// below 9 minutes, below 38 hours, up to 366 days), with room for half as many slots
// again and 8, and for a tenth more than the largest limit needs and 4 at most. A log of
// one slot has room for 2 more: Valkey keeps 64 bytes for it, and many subjects call
// once. What refunds need is stored only while there is something to note:
// docs/algorithms.md, Refunds.
//
// # When Valkey is away
//
// Take returns an error, which means that no decision was made: what that means for the
// call is the caller's policy. After an error the cost may or may not have been taken.
package limiter
