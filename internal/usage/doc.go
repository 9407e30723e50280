// Package usage records what callers do, and reads it back for the dashboard.
//
// A check function gathers outcomes in memory (Recorder). It sends them after its answer;
// where calls follow each other closely, along with a later check's commands, at most
// once an interval. No caller waits for a second round trip. Counts are kept per subject,
// per rule and in total: per minute for 24 hours, per hour for 30 days. Readers never
// scan the key space.
//
// # What is counted
//
// A call counts once, as allowed or denied. Further counts are of calls that a limit in
// shadow mode or a candidate limit would have denied, and of calls decided without the
// store. Minutes and hours are those of the Outcome's Time, in UTC.
//
// A refused credential is no call. It counts by cause, per minute and hour as calls do:
// in all, and for a key whose secret was proven. Callers that prove nothing have no
// counts of their own.
//
// # The denial log
//
// Package denylog says which denials the log lists. What a flood leaves out counts as
// Unlogged, in all and for a registered caller. So denials are what the log has and what
// it leaves out together, but for what a broken connection lost.
//
// # Calls by route
//
// Package routecount says which calls count by route. The routes are one command of a
// Batch: of the first 16 Batches after a pause, then of one every 10 s. They make no
// Batch leave. A Recorder distinguishes 256 routes; calls of further ones count under
// their plan alone, of at most 64 plans.
//
// # Who is denied now, or near a limit
//
// Package statelist has the lists. An environment lists a subject near a limit for a
// minute, or a quarter of the time until the limit is free, longer than needed, and not
// again before that or 10 minutes have passed: no write for each call.
//
// # At most once
//
// A Batch is sent once. What the server surely did not execute (it knew no script, no
// slot, had no memory, took no connection) goes back to the Recorder for the next Batch.
// After a time-out or a broken connection nobody knows, and those counts are dropped:
// Report.Lost says how many. What an environment gathered since its last flush
// is lost when it is killed without SIGTERM, or frozen and never called again. Subjects
// and totals go to different slots, so a failed shard can leave the two slightly apart.
//
// # What is stored
//
// Integers only; everything has a time to live. A count's field is slot*8+kind, where
// slot is the minute of the hour or the hour of the day, and kind is 0 allowed, 1 denied,
// 2 shadow denied, 3 candidate denied, 4 degraded, 5 cost above one of allowed calls, 6
// counted in totals only, 7 with the secret from before the last rotation. Of refusals a
// field is slot*16+kind, and kind is the cause, 0 missing to 7 no access, or 8 what the
// denial log left out. HOUR and DAY count from 1970 in UTC.
//
//	tg:{tag}:ID:mHOUR          hash    a subject's counts in each minute      25 h
//	tg:{tag}:ID:hDAY           hash    a subject's counts in each hour        31 days
//	tg:{tag}:ID:tHOUR          string  a subject's call times, 3 bytes each   2 h
//	tg:{tag}:rule~RULE:mHOUR   hash    counts of a rule; hDAY too             as above
//	tg:{tag}:all~:mHOUR        hash    counts of everything; hDAY too         as above
//	tg:{tag}:refused~:mHOUR    hash    counts of all refusals; hDAY too       as above
//	tg:{tag}:IDrefused~:mHOUR  hash    counts of a key's refusals; hDAY too   as above
//	tg:{tag}:usage-lHOUR       hash    denial log: see denylog                25 h
//	tg:{tag}:usage-seen        zset    subjects by minute of their last call  25 h
//	tg:{tag}:usage-aHOUR       zset    subjects by calls admitted in an hour  25 h
//	tg:{tag}:usage-dHOUR       zset    subjects by calls denied in an hour    25 h
//	tg:{tag}:usage-ADAY        zset    subjects by calls admitted in a day    31 days
//	tg:{tag}:usage-DDAY        zset    subjects by calls denied in a day      31 days
//	tg:{tag}:usage-nDAY        string  unregistered subjects new on a day     2 days
//
// A subject's keys lie in its bucket. Totals and rules go to one of 8 buckets, another
// with each flush, and readers add those up.
//
// # Bounds
//
// A Recorder holds at most MaxSubjects subjects between flushes, half of them
// unregistered, and MaxRules rules in each of 8 minutes; a call of any further subject
// counts in the totals alone, as Unlisted. The store takes at most Options.Newcomers
// unregistered subjects a bucket and day, 262,144 a day with the default; further ones
// are Unlisted too. Registered subjects are as many as the registry has. A bucket's list
// of seen subjects keeps the newest 2,048 for 24 hours, 524,288 in all, and a ranking the
// highest 64. A Recorder holds at most 256 kinds of denials and the refusals of 256
// keys. A bucket's log of an hour takes at most 20 KB, by a test: 128 MB if every bucket
// is flooded in each of 25 hours, and about 350 bytes for a caller's first denial of an
// hour.
//
// # Cost
//
// In Valkey 8.0 a subject that is seen once takes about 480 bytes (of which the counts by
// minute go after a day and those by hour after a month), one that calls once a minute
// for an hour 1.2 KB, and one whose call times fill their notes 3 KB more for two hours.
// A test bounds these figures.
//
// A Batch has one command for each bucket that it touches. The server works about 5 to 9
// µs a subject that it knows from this minute, and 7 to 20 µs for its first call of the
// minute, the more the less of the data is in the processor's cache: a subject that makes
// 100 checks a second in one environment costs 0.1 µs a check. The worst case is an
// environment whose every call comes from another subject, where recording a call costs
// about two checks. With 100 environments of 2,000 checks a second each, that is at most
// 102,400 subjects a second, since a Recorder lists no more than MaxSubjects: about one
// core, spread over the shards. Options.Interval trades freshness for it. The client
// works 2 to 3 µs a subject.
//
// # Call times
//
// A subject that was admitted (or denied) more than 8 times in an hour has its further
// admissions (or denials) noted to the second: at least the last 512 notes of that hour,
// where a note stands for up to 63 calls of one second with one outcome that one
// environment flushed. Reader.Calls returns them for previews, and spreads what the
// counts of a minute have beyond its notes evenly over that minute. A note has no more
// than 31 of the cost above one; the rest is evened out as well.
package usage
