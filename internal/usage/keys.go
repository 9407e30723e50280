package usage

import (
	"strconv"
	"time"

	"tidegate/internal/store/keyspace"
)

const (
	secondsPerMinute = int64(time.Minute / time.Second)
	secondsPerHour   = int64(time.Hour / time.Second)
	minutesPerHour   = 60
	hoursPerDay      = 24
	minutesPerDay    = minutesPerHour * hoursPerDay
)

// Parts of key names in the place of a subject's id. The id of a subject has no ~.
const (
	totalID    = "all~"
	rulePrefix = "rule~"
	refusedID  = "refused~" // alone for all callers; after a subject's id for that subject

	totalBuckets    = 8
	totalBucketStep = keyspace.Buckets / totalBuckets
)

// totalBucket returns the i-th of the buckets that hold totals and rules.
func totalBucket(i int) keyspace.Bucket { return keyspace.Bucket(i % totalBuckets * totalBucketStep) }

func minutesName(b keyspace.Bucket, id string, hour int64) string {
	return b.Name(id + ":m" + strconv.FormatInt(hour, 10))
}

func hoursName(b keyspace.Bucket, id string, day int64) string {
	return b.Name(id + ":h" + strconv.FormatInt(day, 10))
}

func callsName(b keyspace.Bucket, id string, hour int64) string {
	return b.Name(id + ":t" + strconv.FormatInt(hour, 10))
}

func seenName(b keyspace.Bucket) string { return b.Name("usage-seen") }

// rankingName returns the key of a ranking in an hour or a day since 1970.
func rankingName(b keyspace.Bucket, r ranking, period int64) string {
	return b.Name("usage-" + string(rune(r)) + strconv.FormatInt(period, 10))
}

func newcomersName(b keyspace.Bucket, day int64) string {
	return b.Name("usage-n" + strconv.FormatInt(day, 10))
}
