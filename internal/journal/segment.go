package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// segment is an audit.Segment in JSON.
type segment struct {
	Bucket  keyspace.Bucket `json:"bucket"`
	First   uint64          `json:"first"`
	Before  uint64          `json:"before,omitempty"`
	Entries []segmentEntry  `json:"entries"`
}

type segmentEntry struct {
	ID   string `json:"id"`
	Body []byte `json:"body"`
	Hash []byte `json:"hash"`
}

// tail is the end of a bucket's segments: what the next one stands behind.
type tail struct {
	audit.Trimmed        // the newest segment; zero for none
	next          uint64 // number of the first entry behind it
}

// Segment implements audit.Journal.
func (j *Journal) Segment(ctx context.Context, b keyspace.Bucket, first uint64) (audit.Segment, error) {
	s, err := j.readSegment(ctx, b, first)
	switch {
	case errors.Is(err, ErrNotFound):
		return audit.Segment{}, fmt.Errorf("%s: %w", segmentName(b, first), audit.ErrItem)
	case errors.Is(err, audit.ErrItem):
		return audit.Segment{}, err
	case err != nil:
		j.log.Warn("read older entries", "cause", err)
		return audit.Segment{}, audit.ErrOlderAway
	}
	entries := make([]valkey.XRangeEntry, len(s.Entries))
	for i, e := range s.Entries {
		entries[i] = valkey.XRangeEntry{ID: e.ID,
			FieldValues: map[string]string{"e": string(e.Body), "h": string(e.Hash)}}
	}
	return audit.Segment{First: s.First, Before: s.Before, Entries: entries}, nil
}

// readSegment fails with ErrNotFound, or with audit.ErrItem for one that was altered.
func (j *Journal) readSegment(ctx context.Context, b keyspace.Bucket, first uint64) (segment, error) {
	var s segment
	content, err := j.store.Read(ctx, segmentName(b, first))
	if err != nil {
		return s, err
	}
	err = unpack(j.key, segmentLabel, content, &s)
	if err != nil || s.Bucket != b || s.First != first || len(s.Entries) == 0 {
		return s, fmt.Errorf("%s: %w", segmentName(b, first), audit.ErrItem)
	}
	return s, nil
}

// end is the tail that ends with a segment.
func (s segment) end() tail {
	newest := s.Entries[len(s.Entries)-1]
	return tail{audit.Trimmed{First: s.First, ID: newest.ID, Hash: newest.Hash},
		s.First + uint64(len(s.Entries))}
}

// after is the tail behind a segment that begins there; it fails with ErrNotFound.
func (j *Journal) after(ctx context.Context, b keyspace.Bucket, first uint64) (tail, error) {
	s, err := j.readSegment(ctx, b, first)
	if err != nil {
		return tail{}, err
	}
	return s.end(), nil
}

// tailOf finds the end of a bucket's segments, from one on that is known.
func (j *Journal) tailOf(ctx context.Context, b keyspace.Bucket, known audit.Trimmed) (tail, error) {
	t, next := tail{next: 1}, max(1, known.First)
	for {
		found, err := j.after(ctx, b, next)
		if errors.Is(err, ErrNotFound) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t, next = found, found.next
	}
}

// add stores a segment of entries behind a tail, and returns the tail behind what it
// reads back. That ends elsewhere when another environment was first.
func (j *Journal) add(ctx context.Context, b keyspace.Bucket, t tail,
	entries []valkey.XRangeEntry) (tail, error) {
	s := segment{Bucket: b, First: t.next, Before: t.First}
	for _, x := range entries {
		s.Entries = append(s.Entries,
			segmentEntry{x.ID, []byte(x.FieldValues["e"]), []byte(x.FieldValues["h"])})
	}
	sealed, err := pack(j.key, segmentLabel, s)
	if err != nil {
		return t, err
	}
	if err := j.store.Create(ctx, segmentName(b, s.First), sealed); err != nil && !errors.Is(err, ErrExists) {
		return t, err
	}
	stored, err := j.after(ctx, b, s.First)
	if err != nil {
		return t, err
	}
	if want := s.end(); !bytes.Equal(stored.Hash, want.Hash) && stored.next == want.next {
		return t, fmt.Errorf("%w: segment %d of bucket %d holds other entries", audit.ErrBehind, s.First, b)
	}
	return stored, nil
}

// keep stores the entries that Valkey has up to the one with a hash, which were made
// without a journal, as segments.
func (j *Journal) keep(ctx context.Context, b keyspace.Bucket, newest []byte) error {
	if len(newest) == 0 {
		return nil
	}
	t, err := j.tailOf(ctx, b, audit.Trimmed{})
	for err == nil && !bytes.Equal(t.Hash, newest) {
		var entries []valkey.XRangeEntry
		if entries, err = j.entriesBehind(ctx, b, t, segmentSize); err != nil {
			return err
		}
		for i, x := range entries {
			if bytes.Equal([]byte(x.FieldValues["h"]), newest) {
				entries = entries[:i+1]
				break
			}
		}
		if len(entries) == 0 {
			return nil // it is in a segment that goes further
		}
		t, err = j.add(ctx, b, t, entries)
	}
	return err
}

// entriesBehind reads the oldest entries that a stream has behind a tail.
func (j *Journal) entriesBehind(
	ctx context.Context, b keyspace.Bucket, t tail, count int64,
) ([]valkey.XRangeEntry, error) {
	start := "-"
	if t.ID != "" {
		start = "(" + t.ID
	}
	entries, err := j.client.Do(ctx,
		j.client.B().Xrange().Key(audit.Stream(b)).Start(start).End("+").Count(count).Build()).AsXRange()
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return entries, nil
}
