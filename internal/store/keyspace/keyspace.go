// Package keyspace names the keys of everything that Tidegate stores in Valkey, so that
// the keys of one script share a slot.
//
// Every subject (an API key, a token's subject, an address, a route) belongs to one of
// 256 buckets by its id. A bucket is a hash tag. The keys that a check reads and writes
// are in its subject's bucket, with the number of the policy's last change. So a check sees
// a new policy at once, and an edit of the policy writes 256 numbers, however many keys
// there are. The tags spread the buckets evenly over the slots of a cluster.
//
// A bucket has the view of the log of changes: a hash of its records, a sorted set of the
// entries of its lists, and a hash of its marks. Package changes writes them.
package keyspace

import (
	"hash/crc32"
)

// Buckets is the number of buckets.
const Buckets = 256

// Prefix begins every name.
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

// Name returns the name of a value of the whole bucket: tg:{tag}:what.
func (b Bucket) Name(what string) string { return Prefix + "{" + tags[b] + "}:" + what }

// Of returns the name of a subject's value: tg:{tag}:id:what. An id contains no colon.
func Of(id, what string) string { return BucketOf(id).Name(id + ":" + what) }

// Records returns the name of a bucket's records: a hash, which does not expire. The field
// RecordField of a subject has a number, a space and the record's content. The number is
// that of the record's last change.
func (b Bucket) Records() string { return b.Name("cr") }

// Fields of a bucket's records beside those of subjects.
const (
	PositionField = "at"     // the last change that the bucket took; none if it is lost
	PolicyField   = "policy" // number of the last change of the policy
)

// RecordField returns the field of a subject's record in the records of its bucket.
func RecordField(id string) string { return "r:" + id }

// Lists returns the name of the entries of a bucket's lists: a sorted set in byte order.
func (b Bucket) Lists() string { return b.Name("cl") }

// Marks returns the name of a bucket's marks: a hash by the id of their change. A mark is
// the id of a subject that may not call, a line feed, and JSON.
func (b Bucket) Marks() string { return b.Name("cm") }

// PolicyID is the subject of the policy set. Its record is in each of PolicyBuckets.
const PolicyID = "policy"

// PolicyBuckets are the two buckets that have the policy, half of the slots apart.
var PolicyBuckets = [2]Bucket{0, Buckets / 2}

// TokensID is the subject id that all machine tokens share.
const TokensID = "tokens"

// tags are the buckets' short hash tags. Tag i is in slot 64i+32 of 16,384, so nodes with
// equal ranges of slots have equally many buckets.
var tags = [Buckets]string{
	"021", "4zp", "aio", "0ov", "21g", "csv", "cj9", "z1", "1d8", "5hq", "556", "90g", "3gn",
	"baw", "7rh", "f0y",
	"06q", "a0h", "id7", "0k6", "o6o", "69n", "cny", "gb0", "lc0", "5l1", "51v", "1y7", "wkn",
	"7og", "b8p", "3za",
	"4z4", "02u", "0o2", "00bb", "6yb", "o2k", "zu", "kce", "5h5", "9md", "d3k", "55r", "7kc",
	"fmz", "ft5", "j5l",
	"i94", "f", "0kr", "amk", "c3z", "gz", "gbt", "6dm", "5lu", "djl", "1ys", "512", "bes",
	"3cj", "fpu", "72d",
	"emk", "4kr", "465", "83d", "6t", "cbt", "65c", "k3", "112", "5ys", "hct", "1lu", "32d",
	"bpu", "7cj", "fes",
	"8jc", "4o2", "42u", "0z4", "24", "6ld", "k2k", "os", "15r", "qus", "hg4", "1h5", "n5l",
	"bt5", "bmz", "3kc",
	"4k6", "8ng", "e0h", "46q", "cb0", "60", "kw", "k6o", "5y7", "11v", "1l1", "hc0", "7za",
	"f8p", "3og", "skn",
	"4ov", "eio", "0zp", "421", "cfp", "2p", "o7", "61g", "qu7", "156", "1hq", "5d8", "b0y",
	"3rh", "faw", "7gn",
	"bn", "6x6", "6ay", "2m0", "e9q", "a58", "iag", "0nf", "ne6", "7j7", "77p", "f1i", "9l0",
	"5ia", "h7n", "18o",
	"247", "rt6", "6e9", "2ip", "07a", "a1x", "4fo", "min", "fhn", "7nw", "730", "nx9", "1ah",
	"hni", "50f", "957",
	"6xr", "203", "2mt", "ckm", "aqt", "03e", "edr", "4bk", "7js", "flj", "n85", "774", "hjm",
	"1el", "913", "54b",
	"c2j", "fj", "2i4", "kf5", "au4", "8z5", "0jb", "iec", "7n3", "3bz", "f5m", "73t", "5me",
	"9h4", "1xc", "h3j",
	"7d", "6i4", "64s", "g2j", "8o3", "4jb", "i4m", "82t", "33t", "b5m", "7bz", "3n3", "l3j",
	"5xc", "hbd", "1me",
	"gkm", "6mt", "603", "nc", "0bk", "adr", "43e", "864", "374", "j85", "blj", "3js", "14b",
	"q0k", "5el", "dcu",
	"6ip", "2e9", "jg", "647", "iin", "0fo", "820", "47a", "jx9", "330", "3nw", "bhn", "q4o",
	"10f", "9d9", "5ah",
	"6m0", "wh", "2x6", "60w", "4nf", "8k7", "86p", "a9q", "b1i", "37p", "3j7", "je6", "58o",
	"9y6", "1ia", "qmh",
}
