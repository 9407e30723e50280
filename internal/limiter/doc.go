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
// A count has a state for each fate. The ordinary state counts the calls that pass every
// enforced limit. A limit in shadow asks a second one, which counts the calls that fit the
// shadow limits of that state too. A limit that counts denied calls asks a third one, of
// attempts. Both also let the ordinary state count. So the mark of a limit can be taken
// away at any time. A limit that an override replaces only counts.
//
// # The log
//
// A log is a list of (time, total). What was used in a window is the newest total less the
// total before the window. A cost passes a number if that leaves room for it; a cost above
// the number never passes. The newest entry never moves.
//
// When the log has grown to 1.9 times its size, the next step merges neighbours in a piece
// of at most 300 entries: while a merged entry stands for at most a 500th of what came
// after it, or while more came after it than the largest number that is remembered. A
// merged entry has the time of its latest call. So limits of up to 1,000 are exact, and a
// larger one withholds less than a 500th of its number for as long as the calls of one
// entry lie apart. No limit admits too much.
//
// The log remembers the longest window and the largest number of all limits that took from
// it. They are kept for a whole window after they were last named, and gone two later.
// Denials and looks name nothing, except that a denied attempt names on its own log. A log
// never has more entries than about 2,000 * (2 + ln(N / 1,000)), for N the most that lies
// in its longest window; of 1,000 or fewer, 1.9 * N + 24. An entry takes 12 bytes, the head
// 34. Another state takes 44 bytes.
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
// A reset is a time of the server's clock that whoever makes a step brings: what was counted
// up to it does not count. Of two resets the later one holds.
//
// # Settlement
//
// A decision names the states that took the cost, and the instant of the call in them. What
// is given back leaves the entry of that call and reaches nothing else. What a log does not
// know stays counted, and attempts are never given back. What a settlement charges is taken
// at its own instant for a whole window, whether it fits or not: it is owed, and the limit
// denies until it has left. A call that will be settled has a record, which its settlement
// takes away: it happens once.
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
//   - Merged entries stay a 500th only while less than half of what came after is given back.
//   - A clock that jumps ahead ends logs, and a reset before the clock has caught up after
//     a step back does not reach calls whose instants are later than the reset.
//   - Refunds of calls whose log ended, or was reset, before the clock stepped back over it.
//   - A counter, token bucket or fixed window with another window begins from zero.
//   - Above 2^38 what a log holds beyond that is forgotten, but no number reaches so far.
package limiter
