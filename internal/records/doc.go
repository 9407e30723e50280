// Package records counts calls for check functions, and reads the counts for the admin
// function. It decides nothing, runs no scripts, and knows neither policies nor limits: a
// limit is its words.
//
// # Promise
//
// Two seconds after a call its caller's page tells of it, also if nothing else is ever
// called and the environment sleeps. A check function calls Recorder.Send after each
// answer, before it asks for the next event. What is pending leaves then, unless a batch
// left less than 20 ms ago; a caller's first denial of a kind in a minute always leaves.
// So a sleeping environment holds at most the counts of its last 20 ms before the last
// call. Refusals of callers that proved nothing may wait for a second.
//
// # What is counted
//
// A call is allowed, denied by a limit, or refused for any other cause: a bad credential,
// a ban, an address, no access, no Valkey. Everything counts it the same way: totals,
// callers, rankings and the list of denials. Minutes are those of Call.Time. A call of
// cost 0 costs 0.
//
// A caller's counts name the limit or the reason, so that the sum of its denials by limit
// is the number of its denied calls.
//
// # What is stored
//
// Numbers and texts; every key has a time to live. HOUR counts from 1970 in UTC, BLOCK
// from 1970 by 4 days. P is one of 8 partitions by the caller's id, in a slot each.
//
//	tg:{tag}:ID:mHOUR              hash    a caller's counts by minute           51 h
//	tg:{tag}:ID:hBLOCK             hash    a caller's counts by hour             34 days
//	tg:{tag}:nobody~:…             hash    the same of who proved nothing        as above
//	tg:{tag}:all~:…                hash    the same of all calls                 as above
//	tg:{tag}:limits~:…             hash    the same by plan and limit            as above
//	tg:{tag}:route~NAME:mHOUR      hash    a route's counts by minute            51 h
//	tg:{tag}:ID:denied             hash    what denied a caller, since, until    50 h
//	tg:{P}:records-hORDER+HOUR     zset    callers by their calls in an hour     3 h
//	tg:{P}:records-dORDER+DAY      zset    the same in a day                     3 days
//	tg:{P}:records-mORDER+MONTH    zset    the same in 32 days                   63 days
//	tg:{P}:records-newHOUR         HLL     unregistered callers of an hour       2 h
//	tg:{P}:records-denied          zset    callers denied, by the end            30 days
//	tg:{P}:records-banned, -near   zset    banned, and near a limit              30 days
//	tg:{P}:records-denials         stream  first call by caller, kind, minute    50 h
//	tg:{P}:records-ids             stream  ids of the first 20 requests of it    50 h
//	tg:{0}:records-unsure          zset    minutes that may lack calls           34 days
//	tg:{0}:records-began           string  since when there are records          34 days
//
// A field of a hash of counts is the number of the minute or hour in it, and a kind: a
// allowed, x cost above one, d and the limit denied, s and the limit denied in shadow, r
// and the cause refused, g decided without Valkey, o with the previous secret, u without
// counts of its caller. ORDER is b by all calls or t by troubled ones. Lists and streams
// of unregistered callers, which anybody can make up, have names of their own in -others.
//
// An entry of the stream of denials is JSON (see entry). Its number of calls is the count
// in the caller's hash, which further calls increase. The environment whose HINCRBY began
// the count adds the entry; each environment adds request ids until the count is 20.
//
// # Figures that may lack calls
//
// A minute in which a call was decided without Valkey, in which replies were lost, or in
// which batches of an environment failed, is marked. Points of it say AtLeast. Points
// before the first record, or before what is kept, say NotKept; a range of nothing else is
// ErrNotKept. Series.From and To are the minutes or hours that were counted.
//
// # Failures
//
// HINCRBY and ZINCRBY are not idempotent. If the server surely did not execute them, they
// are sent again. If that is unknown, they are not: no call counts twice, and one may not
// count at all (Report.Lost). All other commands are sent again in both cases. The entry
// of a denial may then be stored twice; readers list it once.
//
// While Valkey fails, a Recorder sends every 1 to 30 s. It loses what is pending if the
// environment is killed, or never called again, before the end of the outage. If Valkey
// loses its data, records begin anew. A Recorder notices by its next counts, and sets
// expiries again; of keys that it wrote in the same minute between the two, one without
// further writes may stay.
//
// # Bounds
//
// A Recorder holds counts of at most 1,024 callers, half of them unregistered, and details
// of 256 denials. Further calls count in totals, as Unlisted. A partition accepts 2,048
// unregistered callers an hour, 16,384 in all; an environment learns of that by the reply
// to its batch. It lists 8,192 callers in each ranking and state, and has streams of about
// 8,192 denials and 16,384 sets of ids, and a quarter of that for unregistered callers. An
// hour in which 10^5 new addresses make 10^6 denied calls takes 36 MiB. A caller that is
// seen once takes 770 bytes, and one that calls in each minute of an hour 1.2 KB.
//
// A ranking may lack a third of what each environment counted of a caller, since it is
// written when that has grown by half. Readers order three times as many callers as they
// list by their exact counts.
//
// # Cost
//
// Of a call that leaves alone, 5 commands count it: 2 of its caller, 2 of all and 1 of its
// route. With 100 environments, 50 callers each and one route, BenchmarkRecorded measured
// of a call, beside an EVALSHA of a script that does nothing, a round trip included:
//
//	10 calls a second and environment    5.9 commands    386 bytes    1.7 times
//	200                                  2.8             182          0.6
//	200, one caller                      1.3              81          0.4
//	10, 8 of 10 calls denied             10.9            917          3.0
//	200, 8 of 10 calls denied            3.6             285          0.8
//
// The environment takes 2 µs for a call.
//
// Whatever the range, a chart takes at most 29 commands, an overview 50 beside its rows
// and lists, a row 14, a ranking 16 beside its rows, the list of denials 16 and one for
// each row.
//
// Totals are one key for each scale, which every batch writes: 1,000 environments of 200
// calls a second write it 100,000 times a second, about a tenth of what a shard can.
//
// # Rights
//
// A check function needs HINCRBY, HSET, HSETNX, SET, EXPIRE, ZADD, ZINCRBY,
// ZREMRANGEBYSCORE, ZREMRANGEBYRANK, XADD, PFADD and PFCOUNT on the keys
// tg:{*}:*:m[0-9]*, tg:{*}:*:h[0-9]*, tg:{*}:*:denied and tg:{*}:records-*.
package records
