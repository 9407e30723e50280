package journal

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/objects"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// state has the records of a bucket after the changes up to a position. A deleted record
// stays as nil, so that a restore deletes it in an older Valkey.
type state struct {
	bucket keyspace.Bucket
	position
	taken   time.Time // when Valkey took the newest change
	records map[name][]byte
}

// name names a record in Valkey: a string, or a field of a hash.
type name struct{ key, field string }

func emptyState(b keyspace.Bucket) *state { return &state{bucket: b, records: map[name][]byte{}} }

// apply makes the change of the next entry. It fails with audit.ErrItem if the entry does
// not follow the state's position.
func (s *state) apply(i audit.Item) error {
	if i.Number != s.number+1 || !bytes.Equal(i.Previous, s.hash) {
		return fmt.Errorf("%w: entry %d of bucket %d has another predecessor", audit.ErrItem,
			i.Number, s.bucket)
	}
	s.position, s.taken = position{i.Number, i.Hash}, takenAt(i.ID)
	if c := i.Change; c != nil {
		s.records[name{c.Key, c.Field}] = c.Record
	}
	return nil
}

// head returns the head of the chain at the state's position.
func (s *state) head(k audit.Key) []byte {
	return audit.Item{Bucket: s.bucket, Number: s.number, Hash: s.hash}.Head(k)
}

// takenAt returns when Valkey took the entry with a stream id.
func takenAt(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // OpenItem checked it
	return time.UnixMilli(n).UTC()
}

// keys returns the records of keys, by id.
func (s *state) keys() map[string][]byte {
	keys := map[string][]byte{}
	for n, content := range s.records {
		if id := n.keyID(); id != "" && content != nil {
			keys[id] = content
		}
	}
	return keys
}

// keyID returns the id of the key whose record has this name; empty for other records.
func (n name) keyID() string {
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

// checkpoint is a state in JSON. The store has it in the form of pack.
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

// openState decodes a checkpoint. It fails with audit.ErrItem unless the checkpoint is of
// the bucket and was sealed with the key.
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

// checkpointed returns a bucket's state at its checkpoint; an empty state if there is
// none.
func (j *Journal) checkpointed(ctx context.Context, b keyspace.Bucket) (*state, error) {
	sealed, err := j.store.Read(ctx, checkpointName(b))
	if errors.Is(err, objects.ErrNotFound) {
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

// save stores a checkpoint and reads it back. It keeps a later one, which another
// environment stored meanwhile.
func (j *Journal) save(ctx context.Context, s *state) error {
	sealed, err := s.seal(j.key)
	if err != nil {
		return err
	}
	later := func(stored []byte) bool {
		other, err := openState(j.key, s.bucket, stored)
		return err == nil && other.number > s.number
	}
	if err := j.store.Replace(ctx, checkpointName(s.bucket), sealed, later); err != nil {
		return err
	}
	stored, err := j.checkpointed(ctx, s.bucket)
	if err != nil {
		return err
	}
	if stored.number < s.number {
		return fmt.Errorf("checkpoint of bucket %d: stored up to entry %d, read back up to %d", s.bucket,
			s.number, stored.number)
	}
	return nil
}

// replay returns a bucket's newest state, from its checkpoint and the entries after it,
// and the number of these entries. It checks their chain.
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

// replayUntil returns a bucket's state at a time. It fails if the entries from before
// that time are only in a checkpoint.
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

// entry reads the entry at a position. It fails with objects.ErrNotFound, or with a *DamagedError.
func (j *Journal) entry(ctx context.Context, b keyspace.Bucket, number uint64) (audit.Item, error) {
	content, err := j.store.Read(ctx, entryName(b, number))
	if err != nil {
		return audit.Item{}, err
	}
	item, err := j.key.OpenItem(content)
	if err != nil || item.Bucket != b || item.Number != number {
		return audit.Item{}, &DamagedError{entryName(b, number)}
	}
	return item, nil
}

// maxAhead is the largest number of entries that are read at a time.
const maxAhead = 16

// entriesAfter reads the entries of a bucket after a position, in order, up to the first
// that is missing.
func (j *Journal) entriesAfter(ctx context.Context, b keyspace.Bucket,
	number uint64) iter.Seq2[audit.Item, error] {
	return func(yield func(audit.Item, error) bool) {
		for ahead := 1; ; ahead = min(2*ahead, maxAhead) {
			items, errs := make([]audit.Item, ahead), make([]error, ahead)
			var wait sync.WaitGroup
			for i := range ahead {
				wait.Go(func() { items[i], errs[i] = j.entry(ctx, b, number+1+uint64(i)) })
			}
			wait.Wait()
			for i, item := range items {
				if errors.Is(errs[i], objects.ErrNotFound) || !yield(item, errs[i]) || errs[i] != nil {
					return
				}
			}
			number += uint64(ahead)
		}
	}
}

// Labels of objects. The HMAC of an object covers its label first, so that no object can
// pass for one of another kind. No text that the audit hashes begins with a label.
const (
	checkpointLabel = "checkpoint"
	segmentLabel    = "segment"
)

// pack encodes a value: an HMAC of 32 bytes, then gzipped JSON.
func pack(k audit.Key, label string, value any) ([]byte, error) {
	var packed bytes.Buffer
	packed.Write(make([]byte, sha256.Size))
	w := gzip.NewWriter(&packed)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return nil, fmt.Errorf("encode %s: %w", label, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", label, err)
	}
	sealed := packed.Bytes()
	copy(sealed, packMAC(k, label, sealed[sha256.Size:]))
	return sealed, nil
}

func packMAC(k audit.Key, label string, packed []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(label))
	mac.Write(packed)
	return mac.Sum(nil)
}

// unpack decodes what pack encoded with the same key and label. It fails with
// audit.ErrItem.
func unpack(k audit.Key, label string, sealed []byte, value any) error {
	if len(sealed) < sha256.Size ||
		!hmac.Equal(sealed[:sha256.Size], packMAC(k, label, sealed[sha256.Size:])) {
		return audit.ErrItem
	}
	r, err := gzip.NewReader(bytes.NewReader(sealed[sha256.Size:]))
	if err != nil {
		return audit.ErrItem
	}
	if err := json.NewDecoder(r).Decode(value); err != nil {
		return audit.ErrItem
	}
	return nil
}
