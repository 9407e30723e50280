// Package keyspace has the names of everything that Tidegate keeps in Valkey, so that the
// keys of one step share a slot.
//
// Every subject (an API key, a token's holder, an address, a route) belongs to one of 256
// buckets by its id. A bucket is a hash tag. The keys that a check reads and writes are
// in its subject's bucket, and so is a copy of the plans. So a check sees a new plan at
// once, and an edit of a plan writes 256 copies, however many keys have it. The tags
// spread the buckets evenly over the slots of a cluster.
package keyspace

import (
	"hash/crc32"
)

// Buckets is the number of buckets.
const Buckets = 256

// Prefix is the beginning of every name.
const Prefix = "tg:"

// Bucket is the number of a bucket, 0 to Buckets-1.
type Bucket uint8

// BucketOf returns the bucket of the subject with this id.
func BucketOf(id string) Bucket { return Bucket(crc32.ChecksumIEEE([]byte(id)) >> 24) }

// All returns every bucket, in order of their slots.
func All() []Bucket {
	all := make([]Bucket, Buckets)
	for i := range all {
		all[i] = Bucket(i)
	}
	return all
}

// Name returns the name of a value that a bucket has once: tg:{tag}:what.
func (b Bucket) Name(what string) string { return Prefix + "{" + tags[b] + "}:" + what }

// Of returns the name of a subject's value: tg:{tag}:id:what. An id has no colon.
func Of(id, what string) string { return BucketOf(id).Name(id + ":" + what) }

// Record returns the name of a subject's configuration, which does not expire.
func Record(id string) string { return Of(id, "c") }

// State returns the name of the counts of a subject's limits.
func State(id string) string { return Of(id, "s") }

// TokensID is the subject of all machine tokens.
const TokensID = "tokens"

// Tokens is the name of the hash with the records of machine tokens by id.
var Tokens = Of(TokensID, "records")
