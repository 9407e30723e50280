package usage

import (
	"strconv"

	"tidegate/internal/store/keyspace"
)

const (
	minutesPerHour = 60
	hoursPerDay    = 24
	minutesPerDay  = minutesPerHour * hoursPerDay
)

const (
	totalID    = "all~" // a subject's id has no ~
	rulePrefix = "rule~"
	refusedID  = "refused~" // of all callers; behind a subject's id, of that one

	totalBuckets    = 8
	totalBucketStep = keyspace.Buckets / totalBuckets
)

// totalBucket returns the i-th of the buckets that totals and rules go to.
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

// ranking is a list of the subjects with the most calls of a kind.
type ranking byte

const (
	admittedInHour ranking = 'a'
	deniedInHour   ranking = 'd'
	admittedInDay  ranking = 'A'
	deniedInDay    ranking = 'D'
)

// rankingName names a ranking of a period: an hour or a day.
func rankingName(b keyspace.Bucket, r ranking, period int64) string {
	return b.Name("usage-" + string(rune(r)) + strconv.FormatInt(period, 10))
}

func newcomersName(b keyspace.Bucket, day int64) string {
	return b.Name("usage-n" + strconv.FormatInt(day, 10))
}
