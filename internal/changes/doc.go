// Package changes keeps everything that operators configure as one log of changes in a
// durable store: an S3 bucket or a folder. Valkey is a view of the log that can be made
// again at any time. The admin function and tools import it; the check function must not.
// It knows no keys and no policies: a record is a name and bytes.
//
// # Algorithm
//
// A change is one object, changes/NUMBER. It has up to 1,100 items, each a record before
// and after, and the HMAC of the change before it. Change 1 has the first policy and a
// random id, so two logs have no hash in common. Numbers have no gaps: a writer gives the
// newest number plus one to its change by a put that only succeeds if the name is free.
//
//	edit ─► newest number ─► are its buckets there? ─► judge ─► put ─► all buckets take it
//
// Without an answer, the writer reads the number until something stands there. If that has
// the id of its edit, it is stored, and what stands there is applied. Otherwise another
// writer won, and the edit is judged again. Nothing is put later than 25 s after the
// request began, by the wall clock.
//
// The newest number comes from a list after the greatest position of all buckets, so that
// a missing object and a Valkey that knows more than the log are seen.
//
// A bucket is a hash of records, a sorted set of the entries of its lists and a hash of its
// marks, all in one slot. The hash has the bucket's position too: number and hash of the
// last change that it took. Every bucket takes every change, in one script, if its position
// is the change before; so a script that comes late or twice does nothing. A bucket that is
// behind takes what it lacks at once. One without a position, or far behind, is made again
// from its checkpoint and the log: its loader claims it for 10 s, then asks for the newest
// number, and puts the bucket in place in one step if it still has the claim.
//
// The policy is a record in two buckets, which take its change first. Every bucket has the
// number of its last change, which a check compares with what it compiled.
//
// A revocation or a ban sets a mark first, which acts at once, and is then stored as a
// change. Every edit of its bucket and every catch-up stores the marks that they find, so
// none can be passed. Only a change with its id takes a mark away.
//
// # Consistency
//
// A bucket is the fold of the log at its position, always. An edit is judged on records
// that were read with their positions, all at the newest number, so edits are serial. What
// is acknowledged as in force is stored at its number, and taken by the buckets that it
// changes; where there are replicas, one has it. Other buckets get it in the same flush or
// within the minute. After a failover a shard may lack its last changes until then.
//
// # Failures
//
//   - A writer that dies leaves nothing, or a change that the next edit or the minute
//     brings to all buckets.
//   - While a shard is away, edits that read it wait, and others go on.
//   - While the store is away, edits are refused. Marks act, and are stored later. If the
//     shard loses such a mark as well, the revocation is lost; its answer said so.
//   - A bucket without a position is an outage of Valkey to a check, never an unknown key.
//   - A checkpoint that is missing or damaged does not matter: its bucket is folded from
//     change 1.
//   - A change that is missing or damaged stops edits until a hand brings its object back,
//     or calls Void: a later change then says that it is nothing.
//   - A position that the log does not have stops edits: Valkey belongs to another log, or
//     the log lost changes. A hand brings the log back, or calls TakeOver.
package changes
