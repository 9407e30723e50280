// Package limiter is a sliding-window rate limiter on Valkey: exact, atomic, with one round
// trip per call. It has the algorithms twice: as a Model in Go (model.go, to be read
// first) and as Lua scripts for Valkey, which translate it. It knows limits, counts and the
// names of keys, but no callers or policies.
//
// # Counts
//
// A count says what a limit counts: for whom, in which unit, on which calls. Whoever makes
// a step names it. All exact limits of a count share one log, whatever their numbers,
// windows, plan or place in a list. So edits of numbers and windows, other plans and
// overrides forget nothing. A counter and a fixed window are a count with its window; a
// token bucket also belongs to who set it. Each is a key of its own.
//
// A count has a state, a key in Valkey, for each fate that its limits need:
//
//	ordinary              counts calls that pass every enforced limit; may give back
//	shadow                those of them that its shadow limits pass too; may give back
//	attempts              every call, denied or not; gives nothing back
//	attempts in shadow    the same, for shadow limits that count denied calls
//
// If a limit has another fate, the ordinary state of its count counts too. So the mark of
// a limit can be taken away at any time, and the limit knows the calls before. A limit
// that an override replaces only counts.
//
// # The log
//
// A log is a list of entries (time, total): when something was counted, and all that was
// counted until then. What was used in a window is the newest total less the total of the
// last entry before the window. A cost fits a limit if it is at most what is left of the
// limit's number; a cost above the number never fits. No merge changes the time of the
// newest entry: it is the instant of the latest call.
//
// For example, a call of cost 3 at the time t, the first of a caller with 100 a minute and
// 1,000 an hour. Both limits are of one count, so there is one key, and the step writes
// once: the entries (t - 1 µs, 0) and (t, 3), 58 bytes. 97 and 997 are left. When 99 were
// used in the minute, the cost fits as soon as 97 or fewer are: the wait ends when the
// first entry after which at most 97 was counted leaves the minute. Nothing is written for
// a denied call, also if only one of the limits denies it.
//
// The log remembers what limits named when they took from it: the longest window and the
// largest number. Both are kept for at least one such window after they were last named,
// and while calls come for at most two. Denials and looks name nothing, except that a
// denied attempt names on its own log.
//
// When the log has nearly doubled since the last time (1.9 times), the same step merges
// neighbours in a piece of at most 300 entries. Two rules allow a merge, and one is enough:
// the merged entry stands for at most a 500th of what came after it; or more came after it
// than the largest remembered number, so no limit tells its calls apart. A merged entry has
// the time of its latest call. So two calls of cost 1 merge only when 1,000 came after
// them: limits of up to 1,000 are exact, and a larger one withholds less than a 500th of
// its number for as long as the calls of one entry lie apart. Merging never admits too much.
//
// Two neighbours together stand for more than a 500th of what came after, so while calls
// come a log has at most about 2,000 * (2 + ln(N / 1,000)) entries, for N the most that
// lies in its longest window; of 1,000 or fewer, 1.9 * N + 24. A settlement that charges
// more adds an entry, which the next calls merge. An entry takes 12 bytes, the head 34.
// Another state takes 44 bytes.
//
// # Other algorithms
//
// A counter (Cloudflare, 2017) weights the count of the previous window by its overlap with
// the rolling one. After a burst at the end of a window it may admit up to twice the limit.
// A token bucket is the generic cell rate algorithm (ITU-T I.371), a fixed window a count
// for each aligned window or calendar period; both may admit twice the limit in a rolling
// window. Valkey knows no calendars: a step brings the periods around the environment's
// clock. A limit of calls at once is a log whose calls are given back when they end.
//
// # Time
//
// The server's clock decides; callers' clocks are never read. A call has one instant in all
// states of a step: the latest of the clock, the latest calls of these states, and the
// microsecond after a reset. After a clock that stepped back by D a limit may stay full D
// longer, and the wait says so: waits count from the clock. A retry passes after its wait,
// and not a microsecond earlier, if nobody else calls.
//
// A reset is a time of the server's clock that whoever makes a step brings: what was
// counted up to it does not count. Of a state other than a log, nothing counts if its
// first call was not later.
//
// # Settlement
//
// A decision names the states that took the cost, and the instant of the call in them. What
// is given back leaves the entry of that call and reaches nothing else. What a log does not
// know stays counted, and attempts are never given back. What a settlement charges is taken
// at its own instant for a whole window, whether it fits or not: it is owed, and the limit
// denies until it has left. A call that will be settled has a record, which its settlement
// takes away, so that it happens once. Without a record, whoever settles twice gives back
// what other calls of a merged entry took.
//
// A token bucket gives back what cannot have drained since the call, and forgets what it
// owes two windows after its latest call.
//
// # Failures
//
// An error means that no decision was made; the cost may have been taken, and counts twice
// if the call is tried again. A failover may lose what the replica did not have: limits
// then admit too much for one window. A damaged state counts as none.
//
// # Not promised
//
//   - A number that is raised above all that are remembered sees what lay beyond the old one
//     as one call at the time of its latest, so it may wait up to a window too long. Likewise
//     what a limit reports as owed is an upper bound.
//   - A window that is raised above all that are remembered counts what the log still has,
//     at least the longest remembered window.
//   - Entries merged before a refund stand for a larger share of what is left after it: for
//     a 250th when half was given back. Limits of up to 1,000 are exact without refunds.
//   - A clock that jumps ahead ends logs, and a reset before the clock has caught up after
//     a step back does not reach calls whose instants are later than the reset.
//   - Refunds of calls whose log ended, or was reset, before the clock stepped back over it.
//   - A counter, token bucket or fixed window with another window begins from zero.
//   - Above 2^38 what a log holds beyond that is forgotten, but no number reaches so far.
package limiter
