package audit

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/store/keyspace"
)

// position is where an entry stands among those of all buckets: newest first, and within
// one millisecond and sequence by bucket.
type position struct {
	ms, sequence uint64
	bucket       int
}

func (p position) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.sequence, p.bucket) }

// Before is the After of a query that begins with the newest entry that Valkey took
// before t, which is after 1970.
func Before(t time.Time) string {
	return position{ms: uint64(max(1, t.UnixMilli())), bucket: keyspace.Buckets - 1}.String()
}

func positionOf(id string) position {
	p, _ := parsePosition(id) // ids are made by String
	return p
}

func parsePosition(text string) (position, error) {
	if text == "" {
		return position{ms: math.MaxUint64, bucket: -1}, nil
	}
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return position{}, ErrPosition
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return position{}, ErrPosition
		}
		numbers[i] = n
	}
	if numbers[2] >= keyspace.Buckets {
		return position{}, ErrPosition
	}
	return position{numbers[0], numbers[1], int(numbers[2])}, nil
}

// older orders positions newest first.
func older(a, b position) int {
	return cmp.Or(cmp.Compare(b.ms, a.ms), cmp.Compare(b.sequence, a.sequence),
		cmp.Compare(a.bucket, b.bucket))
}

// end is the stream id at which a bucket's entries after p begin, reading backwards.
func (p position) end(b keyspace.Bucket) string {
	switch {
	case p.bucket < 0:
		return "+"
	case int(b) > p.bucket:
		return fmt.Sprintf("%d-%d", p.ms, p.sequence)
	default:
		return fmt.Sprintf("(%d-%d", p.ms, p.sequence)
	}
}
