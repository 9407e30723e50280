// Package usage records calls for check functions, and reads the records for the admin
// function and the registry. It decides nothing.
//
// A check function gathers outcomes in memory (Recorder). It sends them after its answer,
// or with the commands of a later check when calls are frequent, at most once an
// interval. No caller waits for a second round trip. Counts are kept per subject, per
// rule and in total: per minute for 24 hours, per hour for 30 days. Readers never scan
// the key space.
//
// # What is counted
//
// A call counts once, as allowed or denied. Further counts are of calls that a limit in
// shadow mode would have denied, and of calls decided without Valkey. Minutes and hours
// are those of Outcome.Time, in UTC.
//
// A refused credential is not a call. Refusals count by cause, per minute and hour: in
// total, and per key whose secret was proven.
//
// # The denial log
//
// Package denylog says which denials the log lists. Others count as Unlogged, in total
// and for a registered caller. Except for records that a broken connection lost, logged
// and unlogged denials add up to all denials. Calls that passed and that limits in shadow
// mode would have denied have a log of their own, and count as UnloggedTrials.
//
// # Who is denied now, or near a limit
//
// Package statelist has the lists. To avoid a write for each call, a subject near a limit
// is listed for longer than necessary: by a minute, or by a quarter of the time until the
// limit is free. It is listed again only after that, or after 10 minutes.
//
// # At most once
//
// A Batch is sent once. Records that the server surely did not execute (unknown script or
// slot, out of memory, no connection) are pending again for the next Batch. After a
// time-out or a broken connection this is unknown, and the counts are dropped:
// Report.Lost counts them. Pending records are lost when an environment is killed without
// SIGTERM, or frozen and never called again. Subjects and totals are in different slots,
// so a failed shard can leave the two slightly apart.
//
// # What is stored
//
// Integers only; every key has a time to live. A count's field is slot*8+kind, where slot
// is the minute of the hour or the hour of the day, and kind is 0 allowed, 1 denied, 2
// shadow denied, 3 degraded, 4 cost above one of allowed calls, 5 counted in totals only,
// 6 with the previous secret. A field of refusals is slot*16+kind, where kind is the
// cause, 0 missing to 7 no access, 8 unlogged denials, or 9 unlogged calls that limits in
// shadow mode would have denied. HOUR and DAY count from 1970 in UTC.
//
//	tg:{tag}:ID:mHOUR          hash    a subject's counts in each minute      25 h
//	tg:{tag}:ID:hDAY           hash    a subject's counts in each hour        31 days
//	tg:{tag}:ID:tHOUR          string  a subject's call times, 3 bytes each   2 h
//	tg:{tag}:rule~RULE:mHOUR   hash    counts of a rule; hDAY too             as above
//	tg:{tag}:all~:mHOUR        hash    counts of everything; hDAY too         as above
//	tg:{tag}:refused~:mHOUR    hash    counts of all refusals; hDAY too       as above
//	tg:{tag}:IDrefused~:mHOUR  hash    counts of a key's refusals; hDAY too   as above
//	tg:{tag}:usage-lHOUR       hash    denial log: see denylog                25 h
//	tg:{tag}:usage-wHOUR       hash    the same of limits on trial            25 h
//	tg:{tag}:usage-seen        zset    subjects by minute of their last call  25 h
//	tg:{tag}:usage-aHOUR       zset    subjects by calls admitted in an hour  25 h
//	tg:{tag}:usage-dHOUR       zset    subjects by calls denied in an hour    25 h
//	tg:{tag}:usage-ADAY        zset    subjects by calls admitted in a day    31 days
//	tg:{tag}:usage-DDAY        zset    subjects by calls denied in a day      31 days
//	tg:{tag}:usage-nDAY        string  unregistered subjects new on a day     2 days
//
// A subject's keys are in its bucket. Totals and rules go to one of 8 buckets, the next
// one with each flush, and readers add them up.
//
// # Bounds
//
// A Recorder holds at most MaxSubjects subjects between flushes, half of them
// unregistered, and MaxRules rules in each of 8 minutes. Calls of further subjects count
// in the totals alone, as Unlisted. A bucket accepts at most Options.Newcomers
// unregistered subjects a day, 262,144 in all buckets by default; further ones are
// Unlisted too. The registry bounds registered subjects. A bucket's list of seen subjects
// keeps the newest 2,048 for 24 hours, 524,288 in all, and a ranking the highest 64. A
// Recorder holds at most 256 kinds of denials, as many of limits on trial, and the
// refusals of 256 keys. A bucket's log of an hour takes at most 20 KB, by a test: 128 MB
// if every bucket is flooded in each of 25 hours, and about 350 bytes for a caller's
// first denial of an hour. The log of limits on trial takes as much again.
//
// # Cost
//
// In Valkey 8.0 a subject that is seen once takes about 480 bytes: counts by minute for a
// day, counts by hour for a month. A subject that calls once a minute for an hour takes
// 1.2 KB, and one with as many notes as are kept 3 KB more for two hours. A test bounds
// these figures.
//
// A Batch has one command for each bucket that it touches. A subject costs the server
// about 5 to 9 µs, and 7 to 20 µs for its first call of a minute, depending on the
// processor's cache. So a subject that makes 100 checks a second in one environment costs
// 0.1 µs a check. In the worst case every call of an environment comes from another
// subject, and recording a call costs about two checks. With 100 environments of 2,000
// checks a second each, that is at most 102,400 subjects a second, since a Recorder lists
// no more than MaxSubjects: about one core, spread over the shards. A longer
// Options.Interval reduces the cost. The client needs 2 to 3 µs a subject.
//
// # Call times
//
// After a subject's first 8 admissions (or denials) in an hour, further ones are noted to
// the second. At least the last 512 notes of the hour are kept. A note stands for up to
// 63 calls that one environment flushed, of one second and one outcome. Reader.Calls
// returns the notes for previews, and spreads the calls of a minute that have no note
// evenly over it. A note holds at most 31 of the cost above one; the rest is spread as
// well.
package usage
