// Package limiter is a sliding-window rate limiter on Valkey: exact, atomic, one round trip a call.
//
// # Algorithms
//
// Log keeps the time of every admitted call (the "sliding window log"), so no rolling window [t, t+Window) ever admits more than Limit.Requests, and
// RetryAfter is the exact instant at which the same cost passes. It is not kept as a sorted set but as an array of times in one string: to admit cost
// c under limit n only the c-th oldest of the newest n times matters, so the decision reads one slot.
//
// Counter keeps two adjacent fixed windows and weights the previous one by how much of it the rolling window still overlaps, as Cloudflare described
// in 2017 ("How we built rate limiting capable of scaling to millions of domains"). It assumes that calls were spread evenly over the previous
// window: a burst at the end of one window followed by a greedy caller admits up to twice the limit in one rolling window.
//
// # Cost and clock
//
// One Take is one EVALSHA on one key: one round trip, whatever the number of limits, all of them taken or none. The server's clock decides
// (TIME, microseconds); callers' clocks are never read. A server clock that steps back never frees anything early: time stands still until
// then is made up for. State lives at most two windows after the last admission, then Valkey drops it; denied calls write nothing.
//
// # Memory
//
// A counter takes 15 bytes and its window 6. All Log limits of a subject share one array: 4, 5 or 6 bytes for each admitted unit of cost in the
// longest window (longest windows below 17 minutes, 3 days, up to 366 days), plus at most half as much room to grow and never more than an eighth
// above the largest limit.
//
// # When Valkey is away
//
// Take returns an error, which means that no decision was made: what that means for the call is the caller's policy. After an error the cost may or
// may not have been taken.
package limiter
