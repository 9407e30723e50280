// Package keyspace names everything that Tidegate keeps in Valkey, so that what one step
// touches shares a slot.
//
// Every subject (an API key, a token's holder, an address, a route) falls into one of 256
// buckets by its id. A bucket is a hash tag: what a check reads and writes lies in its
// subject's bucket, and so does a copy of the plans, so that a check sees a new plan at
// once and an edit of a plan writes 256 copies, however many keys have it. The tags are
// chosen so that the buckets spread evenly over the slots of a cluster.
package keyspace

import (
	"hash/crc32"
	"slices"
)

// Buckets is the number of buckets.
const Buckets = 256

// Prefix begins every name.
const Prefix = "tg:"

// Bucket is a number of a bucket, 0 to Buckets-1.
type Bucket uint8

// BucketOf returns the bucket of the subject with this id.
func BucketOf(id string) Bucket { return Bucket(crc32.ChecksumIEEE([]byte(id)) >> 24) }

// All returns every bucket, in order of their slots.
func All() []Bucket {
	all := make([]Bucket, Buckets)
	for i := range all {
		all[i] = Bucket(i)
	}
	return slices.Clip(all)
}

// Name returns the name of a thing that a bucket has one of: tg:{tag}:what.
func (b Bucket) Name(what string) string { return Prefix + "{" + tags[b] + "}:" + what }

// Of returns the name of a thing that belongs to the subject: tg:{tag}:id:what. An id has
// no colon.
func Of(id, what string) string { return BucketOf(id).Name(id + ":" + what) }

// Record is a subject's configuration; it does not expire.
func Record(id string) string { return Of(id, "c") }

// State is what a subject's limits count.
func State(id string) string { return Of(id, "s") }

// TokensID is the subject that all machine tokens go by.
const TokensID = "tokens"

// Tokens is a hash of the records of machine tokens, by their id.
var Tokens = Of(TokensID, "records")
