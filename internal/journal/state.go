package journal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// state is what the changes of a bucket, up to a position, leave in Valkey. A record that
// was deleted stays as nil, so that an older Valkey loses it too.
type state struct {
	bucket keyspace.Bucket
	position
	taken   time.Time
	records map[name][]byte
}

// name is where a record lies in Valkey.
type name struct{ key, field string }

func emptyState(b keyspace.Bucket) *state { return &state{bucket: b, records: map[name][]byte{}} }

// apply makes the change of the entry behind the state's.
func (s *state) apply(i audit.Item) error {
	if i.Number != s.number+1 || !bytes.Equal(i.Previous, s.hash) {
		return fmt.Errorf("%w: entry %d of bucket %d has another before it", audit.ErrItem,
			i.Number, s.bucket)
	}
	s.position, s.taken = position{i.Number, i.Hash}, takenAt(i.ID)
	if c := i.Change; c != nil {
		s.records[name{c.Key, c.Field}] = c.Record
	}
	return nil
}

// head is the head of the chain at the state's position.
func (s *state) head(k audit.Key) []byte {
	return audit.Item{Bucket: s.bucket, Number: s.number, Hash: s.hash}.Head(k)
}

// takenAt is when Valkey took an entry.
func takenAt(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // OpenItem checked it
	return time.UnixMilli(n).UTC()
}

// idOf is the id of the key whose record lies there; empty for another record.
func (n name) idOf() string {
	if n.field != "" || n.key == policyset.SetKey {
		return ""
	}
	_, id, _ := strings.Cut(n.key, "}:")
	id, isRecord := strings.CutSuffix(id, ":c")
	if !isRecord {
		return ""
	}
	return id
}
