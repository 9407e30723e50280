package records

import (
	"strconv"
	"time"

	"tidegate/internal/store/keyspace"
)

// How long records are kept. Yesterday in any time zone is within MinutesKept.
const (
	MinutesKept = 50 * time.Hour      // counts by minute, denials and their request ids
	HoursKept   = 30 * 24 * time.Hour // counts by hour
)

const (
	minuteSeconds  = 60
	hourMinutes    = 60
	dayHours       = 24
	blockHours     = 4 * dayHours // of one hash of counts by hour
	monthHours     = 32 * dayHours
	partitions     = 8
	partitionWidth = keyspace.Buckets / partitions
)

// Ids of what is counted beside callers. No caller's id has a ~.
const (
	totalID     = "all~"
	limitsID    = "limits~" // all callers, by plan and limit
	nobodyID    = "nobody~" // callers that proved nothing
	routePrefix = "route~"
)

// scale is the resolution of counts: scale minutes in one hash an hour, or scale hours in
// one hash for 4 days.
type scale byte

const (
	minutes scale = 'm'
	hours   scale = 'h'
)

// seconds returns the length of a slot.
func (s scale) seconds() int64 {
	if s == hours {
		return hourMinutes * minuteSeconds
	}
	return minuteSeconds
}

// slots returns how many slots a hash has.
func (s scale) slots() int64 {
	if s == hours {
		return blockHours
	}
	return hourMinutes
}

// slotOf returns the number of the slot of a time, since 1970.
func (s scale) slotOf(t time.Time) int64 { return max(t.Unix(), 0) / s.seconds() }

// start returns when a slot begins.
func (s scale) start(slot int64) time.Time { return time.Unix(slot*s.seconds(), 0).UTC() }

// kept returns how long a hash is kept after its last write.
func (s scale) kept() time.Duration {
	if s == hours {
		return HoursKept + blockHours*time.Hour
	}
	return MinutesKept + time.Hour
}

// countsKey names the hash that has a slot of what an id names.
func countsKey(id string, s scale, slot int64) string {
	return keyspace.Of(id, string(rune(s))+strconv.FormatInt(slot/s.slots(), 10))
}

// deniedKey names the hash of what denied a caller last.
func deniedKey(id string) string { return keyspace.Of(id, "denied") }

// partitionOf returns the partition that lists a caller.
func partitionOf(id string) int { return int(keyspace.BucketOf(id)) / partitionWidth }

// listKey names a list of a partition.
func listKey(partition int, list string) string {
	return keyspace.Bucket(partition * partitionWidth).Name("records-" + list)
}

// Lists of partition 0 alone.
const (
	unsureList = "unsure" // sorted set of minutes whose counts may lack calls
	beganList  = "began"  // when Valkey began to have records
)

// Streams of each partition. Callers that anybody can make up have their own.
const (
	denialStream = "denials"
	idStream     = "ids"
	others       = "-others"
)

func streamKey(id string, registered bool, stream string) string {
	if !registered {
		stream += others
	}
	return listKey(partitionOf(id), stream)
}

// The most that a partition holds.
const (
	maxDenials   = 8192  // entries of its stream of denials, a quarter for other callers
	maxIDs       = 16384 // entries of its stream of request ids, a quarter for other callers
	maxRanked    = 8192  // callers of a ranking, or of a list of states
	maxNewcomers = 2048  // unregistered callers an hour
	maxUnsure    = 10000 // minutes, in partition 0
)
