package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// checkpoint is a state in JSON. In the store it is packed behind its HMAC.
type checkpoint struct {
	Bucket  keyspace.Bucket `json:"bucket"`
	Number  uint64          `json:"number"`
	Hash    []byte          `json:"hash"`
	Taken   time.Time       `json:"taken"`
	Records []record        `json:"records"`
}

type record struct {
	Key     string `json:"key"`
	Field   string `json:"field,omitempty"`
	Record  []byte `json:"record,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

// seal encodes a state.
func (s *state) seal(k audit.Key) ([]byte, error) {
	c := checkpoint{Bucket: s.bucket, Number: s.number, Hash: s.hash, Taken: s.taken}
	order := func(a, b name) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.field, b.field)) }
	for _, n := range slices.SortedFunc(maps.Keys(s.records), order) {
		content := s.records[n]
		c.Records = append(c.Records, record{n.key, n.field, content, content == nil})
	}
	return pack(k, checkpointLabel, c)
}

// openState reads a checkpoint and checks that it is of the bucket and was sealed with
// the key.
func openState(k audit.Key, b keyspace.Bucket, sealed []byte) (*state, error) {
	var c checkpoint
	if err := unpack(k, checkpointLabel, sealed, &c); err != nil || c.Bucket != b {
		return nil, audit.ErrItem
	}
	s := &state{bucket: b, position: position{c.Number, c.Hash}, taken: c.Taken, records: map[name][]byte{}}
	for _, r := range c.Records {
		s.records[name{r.Key, r.Field}] = r.Record
		if !r.Deleted && r.Record == nil {
			s.records[name{r.Key, r.Field}] = []byte{}
		}
	}
	return s, nil
}

// checkpointed returns a bucket's state at its checkpoint; an empty one without.
func (j *Journal) checkpointed(ctx context.Context, b keyspace.Bucket) (*state, error) {
	sealed, err := j.store.Read(ctx, checkpointName(b))
	if errors.Is(err, ErrNotFound) {
		return emptyState(b), nil
	}
	if err != nil {
		return nil, err
	}
	s, err := openState(j.key, b, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", checkpointName(b), err)
	}
	return s, nil
}

// save stores a checkpoint and reads it back.
func (j *Journal) save(ctx context.Context, s *state) error {
	sealed, err := s.seal(j.key)
	if err != nil {
		return err
	}
	if err := j.store.Replace(ctx, checkpointName(s.bucket), sealed); err != nil {
		return err
	}
	stored, err := j.checkpointed(ctx, s.bucket)
	if err != nil {
		return err
	}
	if stored.number < s.number {
		return fmt.Errorf("checkpoint of bucket %d: entry %d was stored and %d is read", s.bucket, s.number,
			stored.number)
	}
	return nil
}

// replay returns a bucket's newest state, from its checkpoint and the entries behind it,
// and how many those were. It checks the chain on the way.
func (j *Journal) replay(ctx context.Context, b keyspace.Bucket) (s *state, entries uint64, err error) {
	if s, err = j.checkpointed(ctx, b); err != nil {
		return nil, 0, err
	}
	from := s.number
	for item, err := range j.entriesAfter(ctx, b, from) {
		if err == nil {
			err = s.apply(item)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return s, s.number - from, nil
}

// replayUntil returns a bucket's state at a time.
func (j *Journal) replayUntil(ctx context.Context, b keyspace.Bucket, until time.Time) (*state, error) {
	s, err := j.checkpointed(ctx, b)
	if err != nil {
		return nil, err
	}
	fresh, newest := s.number == 0, s.number
	if s.taken.After(until) {
		s = emptyState(b)
	}
	for item, err := range j.entriesAfter(ctx, b, s.number) {
		if err == nil && takenAt(item.ID).After(until) {
			return s, nil
		}
		if err == nil {
			err = s.apply(item)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.number == 0 && !fresh || s.number < newest {
		return nil, fmt.Errorf("the journal of bucket %d lacks entries from before %s", b,
			until.Format(time.RFC3339))
	}
	return s, nil
}

// Every so many entries of a bucket a checkpoint is taken, so that a restore reads fewer
// than that.
const checkpointEvery = 200
