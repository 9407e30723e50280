// Package journal keeps every acknowledged change in a durable store: an S3 bucket or a
// folder. Restore rebuilds from it what Valkey lost. The admin function and tools import
// it; the check function must not.
//
// # Algorithm
//
// An entry's name has the number of its bucket and its position in that bucket's chain. A
// name is written once, so storing an entry twice changes nothing. Before a change, Ready
// asks whether the next position is free in the store. After it, Ship stores the entries
// that Valkey lists as unshipped, in order, and only then is the change acknowledged.
// Upkeep takes a checkpoint of a bucket with many new entries; a restore reads it and the
// entries after it.
//
// # Consistency
//
// The store never has an entry without those before it. Each entry, checkpoint and segment
// carries an HMAC, and each entry that of the one before, so an altered one is found.
// Several processes may use one store and one Valkey at once. If the store has an entry
// after Valkey's newest, Valkey lost changes: edits of that bucket are refused, and its
// checks are decided as without Valkey, until it is restored. A bucket in which Valkey has
// changes that the store lacks is not restored, unless the caller forces it.
//
// # Failures
//
// While the store is unavailable, Ready refuses changes before anything changed, except
// urgent ones such as a revocation, or all with the queue. If Ship fails, Valkey still
// lists the entry: the next start, check of the status or change in the bucket ships it.
// An interrupted restore leaves a bucket that nothing can change until it is restored
// again.
package journal
