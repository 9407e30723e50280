package journal

import (
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/objects"
	"tidegate/internal/store/keyspace"
)

// segment is an audit.Segment in JSON. The store has it in the form of pack.
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

// tail is the end of a segment, or the start of a chain.
type tail struct {
	audit.Trimmed        // the segment and its newest entry; zero at the start
	next          uint64 // number of the entry after it
}

// Segment implements audit.Journal.
func (j *Journal) Segment(ctx context.Context, b keyspace.Bucket, first uint64) (audit.Segment, error) {
	s, err := j.readSegment(ctx, b, first)
	switch {
	case errors.Is(err, objects.ErrNotFound):
		return audit.Segment{}, fmt.Errorf("%s: %w", segmentName(b, first), audit.ErrItem)
	case errors.Is(err, audit.ErrItem):
		return audit.Segment{}, err
	case err != nil:
		j.log.Warn("journal: read older entries", "cause", err)
		return audit.Segment{}, audit.ErrOlderUnavailable
	}
	entries := make([]valkey.XRangeEntry, len(s.Entries))
	for i, e := range s.Entries {
		entries[i] = valkey.XRangeEntry{ID: e.ID,
			FieldValues: map[string]string{"e": string(e.Body), "h": string(e.Hash)}}
	}
	return audit.Segment{First: s.First, Before: s.Before, Entries: entries}, nil
}

// readSegment reads the segment that begins with an entry. It fails with objects.ErrNotFound, or
// with audit.ErrItem if the segment was altered.
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

// end returns the end of a segment.
func (s segment) end() tail {
	newest := s.Entries[len(s.Entries)-1]
	return tail{audit.Trimmed{First: s.First, ID: newest.ID, Hash: newest.Hash},
		s.First + uint64(len(s.Entries))}
}

// endOf returns the end of the segment that begins with an entry. It fails with
// objects.ErrNotFound, also if an adoption stored the segment but not its checkpoint: Valkey may
// have lost these entries since.
func (j *Journal) endOf(ctx context.Context, b keyspace.Bucket, first uint64) (tail, error) {
	s, err := j.readSegment(ctx, b, first)
	if err != nil {
		return tail{}, err
	}
	switch covered, err := j.covers(ctx, b, s.end()); {
	case err != nil:
		return tail{}, err
	case !covered:
		return tail{}, objects.ErrNotFound
	}
	return s.end(), nil
}

// lastEnd returns the end of a bucket's newest segment, or the start of the chain. It
// skips segments of an adoption that did not store its checkpoint.
func (j *Journal) lastEnd(ctx context.Context, b keyspace.Bucket) (tail, error) {
	tails := []tail{{next: 1}}
	for {
		s, err := j.readSegment(ctx, b, tails[len(tails)-1].next)
		if errors.Is(err, objects.ErrNotFound) {
			break
		}
		if err != nil {
			return tail{}, err
		}
		tails = append(tails, s.end())
	}
	for last := len(tails) - 1; last > 0; last-- {
		if covered, err := j.covers(ctx, b, tails[last]); err != nil || covered {
			return tails[last], err
		}
	}
	return tails[0], nil
}

// covers reports whether the journal has the last entry before a tail, or lacks this
// entry and has a checkpoint at or after it.
func (j *Journal) covers(ctx context.Context, b keyspace.Bucket, t tail) (bool, error) {
	newest := t.next - 1
	item, err := j.entry(ctx, b, newest)
	if !errors.Is(err, objects.ErrNotFound) {
		return err == nil && bytes.Equal(item.Hash, t.Hash), err
	}
	if j.known(b).number >= newest { // a checkpoint follows the gap
		return true, nil
	}
	s, err := j.checkpointed(ctx, b)
	return err == nil && s.number >= newest, err
}

// addSegment stores entries as the segment after a tail and returns the segment's end. If
// another environment stored the segment first, it returns the end of that one.
func (j *Journal) addSegment(ctx context.Context, b keyspace.Bucket, t tail,
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
	if errors.Is(err, objects.ErrExists) {
		if found, err := j.endOf(ctx, b, s.First); !errors.Is(err, objects.ErrNotFound) {
			return found, err
		}
		damaged := func([]byte) bool { return false }
		err = j.store.Replace(ctx, segmentName(b, s.First), sealed, damaged)
	}
	if err != nil {
		return t, err
	}
	if s, err = j.readSegment(ctx, b, s.First); err != nil {
		return t, err
	}
	return s.end(), nil
}

// storeOlder stores entries that were made without a journal as segments: the entries
// that Valkey has, up to the one with the hash newest.
func (j *Journal) storeOlder(ctx context.Context, b keyspace.Bucket, newest []byte) error {
	if len(newest) == 0 {
		return nil
	}
	t, err := j.lastEnd(ctx, b)
	for err == nil && !bytes.Equal(t.Hash, newest) {
		var entries []valkey.XRangeEntry
		if entries, err = j.streamAfter(ctx, b, t, segmentSize); err != nil {
			return err
		}
		for i, x := range entries {
			if bytes.Equal([]byte(x.FieldValues["h"]), newest) {
				entries = entries[:i+1]
				break
			}
		}
		if len(entries) == 0 {
			return nil // a longer segment has the entry
		}
		t, err = j.addSegment(ctx, b, t, entries)
	}
	return err
}

// streamAfter reads up to count of the oldest entries that a bucket's stream has after a
// tail.
func (j *Journal) streamAfter(
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

const (
	segmentSize = 100       // entries that trim moves at a time
	trimEvery   = time.Hour // how often an environment trims the streams
)

//go:embed lua/trim.lua
var trimLua string

var trimScript = valkey.NewLuaScript(trimLua)

func (j *Journal) trimDue() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.trimmed) >= trimEvery
}

// trimAll trims every stream. It continues after an error.
func (j *Journal) trimAll(ctx context.Context, before time.Time) error {
	var failed error
	for _, b := range keyspace.All() {
		if err := ctx.Err(); err != nil {
			return errors.Join(failed, err)
		}
		if err := j.trim(ctx, b, before); err != nil {
			failed = errors.Join(failed, fmt.Errorf("journal: trim: %w", err))
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trimmed = time.Now()
	return failed
}

// trim moves entries that Valkey took before a time from a bucket's stream to segments,
// segmentSize at a time. The newest entry stays. trim removes entries from the stream
// only after it read their segment back, and if the journal has their changes.
func (j *Journal) trim(ctx context.Context, b keyspace.Bucket, before time.Time) error {
	mark, err := j.client.Do(ctx, j.client.B().Get().Key(audit.TrimmedKey(b)).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("read mark: %w", err)
	}
	for {
		lacks := audit.ParseTrimmed(mark)
		t := tail{lacks, 1}
		if lacks.First > 0 {
			if t, err = j.endOf(ctx, b, lacks.First); err != nil {
				return err
			}
		}
		next, err := j.nextSegment(ctx, b, t, before)
		if err != nil || next.next == t.next {
			return err
		}
		removed, err := j.removeUntil(ctx, b, mark, next)
		if err != nil || !removed {
			return err
		}
		mark = next.String()
	}
}

// nextSegment returns the end of the segment that follows t, and stores the segment if
// there is none. It returns t if an entry of the segment is too new, or if no entry would
// stay in the stream.
func (j *Journal) nextSegment(ctx context.Context, b keyspace.Bucket, t tail,
	before time.Time) (tail, error) {
	oldest, err := j.streamAfter(ctx, b, t, 1)
	if err != nil || len(oldest) == 0 || !takenAt(oldest[0].ID).Before(before) {
		return t, err
	}
	next, err := j.endOf(ctx, b, t.next)
	if err == nil && takenAt(next.ID).Before(before) {
		if newer, err := j.streamAfter(ctx, b, next, 1); err != nil || len(newer) == 0 {
			return t, err
		}
		return next, nil
	}
	if err == nil || !errors.Is(err, objects.ErrNotFound) {
		return t, err
	}
	entries, err := j.streamAfter(ctx, b, t, segmentSize+1)
	if err != nil || len(entries) <= segmentSize {
		return t, err
	}
	newest := entries[segmentSize-1]
	if !takenAt(newest.ID).Before(before) {
		return t, nil
	}
	end := tail{audit.Trimmed{ID: newest.ID, Hash: []byte(newest.FieldValues["h"])}, t.next + segmentSize}
	switch covered, err := j.covers(ctx, b, end); {
	case err != nil:
		return t, err
	case !covered:
		return t, fmt.Errorf("entry %d of bucket %d is not in the journal: it stays in Valkey", end.next-1, b)
	}
	next, err = j.addSegment(ctx, b, t, entries[:segmentSize])
	if err != nil || next.ID != newest.ID {
		return t, err
	}
	return next, nil
}

// removeUntil removes the entries up to a tail from a stream and sets the mark. It
// reports false if another environment changed the mark, or if the bucket is being
// restored.
func (j *Journal) removeUntil(ctx context.Context, b keyspace.Bucket, mark string, t tail) (bool, error) {
	keys := []string{audit.Stream(b), audit.TrimmedKey(b), audit.HeadKey(b)}
	args := []string{mark, t.String(), idAfter(t.ID), fence}
	removed, err := trimScript.Exec(ctx, j.client, keys, args).AsInt64()
	if err != nil {
		return false, fmt.Errorf("trim stream: %w", err)
	}
	return removed == 1, nil
}

// idAfter returns the stream id that follows an id.
func idAfter(id string) string {
	ms, sequence, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(sequence, 10, 64) // Valkey made it
	return ms + "-" + strconv.FormatUint(n+1, 10)
}
