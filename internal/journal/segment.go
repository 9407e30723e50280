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

// after is the tail behind a segment that begins there. It fails with ErrNotFound, also for
// a segment of an adoption that ended before its checkpoint: Valkey may have lost since
// what stands in it.
func (j *Journal) after(ctx context.Context, b keyspace.Bucket, first uint64) (tail, error) {
	s, err := j.readSegment(ctx, b, first)
	if err != nil {
		return tail{}, err
	}
	switch has, err := j.has(ctx, b, s.end()); {
	case err != nil:
		return tail{}, err
	case !has:
		return tail{}, ErrNotFound
	}
	return s.end(), nil
}

// tailOf finds the end of a bucket's segments, without those of an adoption that ended
// before its checkpoint.
func (j *Journal) tailOf(ctx context.Context, b keyspace.Bucket) (tail, error) {
	tails := []tail{{next: 1}}
	for {
		s, err := j.readSegment(ctx, b, tails[len(tails)-1].next)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			return tail{}, err
		}
		tails = append(tails, s.end())
	}
	for last := len(tails) - 1; last > 0; last-- {
		if has, err := j.has(ctx, b, tails[last]); err != nil || has {
			return tails[last], err
		}
	}
	return tails[0], nil
}

// has reports whether the journal has the entry before a tail, or lacks it and has a
// checkpoint behind it.
func (j *Journal) has(ctx context.Context, b keyspace.Bucket, t tail) (bool, error) {
	newest := t.next - 1
	item, err := j.entry(ctx, b, newest)
	if !errors.Is(err, ErrNotFound) {
		return err == nil && bytes.Equal(item.Hash, t.Hash), err
	}
	if j.known(b).number >= newest { // so a checkpoint is behind the gap
		return true, nil
	}
	s, err := j.checkpointed(ctx, b)
	return err == nil && s.number >= newest, err
}

// add stores a segment of entries behind a tail, and returns the tail behind what stands
// there then. That ends elsewhere when another environment was first.
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
	err = j.store.Create(ctx, segmentName(b, s.First), sealed)
	if errors.Is(err, ErrExists) {
		if found, err := j.after(ctx, b, s.First); !errors.Is(err, ErrNotFound) {
			return found, err
		}
		err = j.store.Replace(ctx, segmentName(b, s.First), sealed)
	}
	if err != nil {
		return t, err
	}
	if s, err = j.readSegment(ctx, b, s.First); err != nil {
		return t, err
	}
	return s.end(), nil
}

// keep stores the entries that Valkey has up to the one with a hash, which were made
// without a journal, as segments.
func (j *Journal) keep(ctx context.Context, b keyspace.Bucket, newest []byte) error {
	if len(newest) == 0 {
		return nil
	}
	t, err := j.tailOf(ctx, b)
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
