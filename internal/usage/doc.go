// Package usage records what callers do, and reads it back for the dashboard.
//
// A check function gathers outcomes in memory (Recorder) and sends them along with a later check's commands, at most once an interval, so that no check
// makes a second round trip for them. Counts are kept per subject, per rule and in total: per minute for 24 hours, per hour for 30 days. Readers never
// scan the key space.
//
// # What is counted
//
// A call counts once, as allowed or denied; whether a shadow limit or a candidate limit would have denied it, and whether it was decided without the
// store, counts beside. Minutes and hours are those of the Outcome's Time, in UTC.
//
// # At most once
//
// A Batch is sent once. What the server surely did not execute (it knew no script, no slot, had no memory, took no connection) goes back to the Recorder
// for the next Batch. After a time-out or a broken connection nobody knows, and those counts are dropped: Report.Lost tells how many. Besides, what an
// environment gathered since its last flush is lost when it is killed without SIGTERM, or frozen and never called again. Subjects and totals go to
// different slots, so a failed shard can leave the two slightly apart.
//
// # What is stored
//
// Integers only; everything has a time to live. A count's field is slot*8+kind, where slot is the minute of the hour or the hour of the day, and kind is 0
// allowed, 1 denied, 2 shadow denied, 3 candidate denied, 4 degraded, 5 cost above one of allowed calls, 6 counted in totals only. HOUR and DAY count
// from 1970 in UTC.
//
//	tg:{tag}:ID:mHOUR          hash    counts of a subject in each minute of an hour    25 h
//	tg:{tag}:ID:hDAY           hash    counts of a subject in each hour of a day        31 days
//	tg:{tag}:ID:tHOUR          string  call times of a subject in an hour, 3 bytes each 2 h
//	tg:{tag}:rule~RULE:mHOUR   hash    counts of a rule; hDAY too                       as above
//	tg:{tag}:all~:mHOUR        hash    counts of everything; hDAY too                   as above
//	tg:{tag}:usage-seen        zset    subjects by the minute of their last call        25 h
//	tg:{tag}:usage-aHOUR       zset    subjects by calls admitted in an hour            25 h
//	tg:{tag}:usage-dHOUR       zset    subjects by calls denied in an hour              25 h
//	tg:{tag}:usage-ADAY        zset    subjects by calls admitted in a day              31 days
//	tg:{tag}:usage-DDAY        zset    subjects by calls denied in a day                31 days
//	tg:{tag}:usage-nDAY        string  subjects that nobody registered, new that day    2 days
//
// A subject's keys lie in its bucket. Totals and rules go to one of 16 buckets, another with each flush, and readers add those up.
//
// # Bounds
//
// A Recorder holds at most MaxSubjects subjects between flushes, half of them unregistered, and MaxRules rules; a call of any further subject counts in
// the totals alone, as Unlisted. The store takes at most Options.Newcomers unregistered subjects a bucket and day, 262,144 a day with the default;
// further ones are Unlisted too. Registered subjects are as many as the registry has. A bucket's list of seen subjects keeps the newest 2,048, so
// 524,288 in all, for 24 hours, and a ranking the highest 64.
//
// # Call times
//
// A subject that was called more than 8 times in an hour has its further calls noted to the second: at least the last 512 notes of that hour, where a note
// stands for the calls of one second with one outcome that one environment flushed. Reader.Calls returns them for previews, and spreads what the counts
// of a minute have beyond its notes evenly over that minute. A note has no more than 31 of the cost above one; the rest is evened out as well.
package usage
