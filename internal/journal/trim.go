package journal

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

const (
	// segmentSize is how many entries leave a stream at a time, in one object.
	segmentSize = 100
	// trimEvery is how often an environment looks for entries that are to leave.
	trimEvery = time.Hour
)

//go:embed lua/trim.lua
var trimLua string

var trimScript = valkey.NewLuaScript(trimLua)

func (j *Journal) trimDue() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.trimmed) >= trimEvery
}

// trimAll trims every stream. One that cannot be trimmed does not keep others from it.
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
// segmentSize at a time. The newest entry stays. An entry leaves the stream when the
// segment that has it was read back, and the journal has its change or stands behind it.
func (j *Journal) trim(ctx context.Context, b keyspace.Bucket, before time.Time) error {
	mark, err := j.client.Do(ctx, j.client.B().Get().Key(audit.TrimmedKey(b)).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("read mark: %w", err)
	}
	for {
		lacks := audit.ParseTrimmed(mark)
		t := tail{lacks, 1}
		if lacks.First > 0 {
			if t, err = j.after(ctx, b, lacks.First); err != nil {
				return err
			}
		}
		next, err := j.nextSegment(ctx, b, t, before)
		if err != nil || next.next == t.next {
			return err
		}
		moved, err := j.cut(ctx, b, mark, next)
		if err != nil || !moved {
			return err
		}
		mark = next.String()
	}
}

// nextSegment returns the tail behind the segment that follows t, and t when its entries
// are not all old enough. It stores the segment if there is none.
func (j *Journal) nextSegment(ctx context.Context, b keyspace.Bucket, t tail,
	before time.Time) (tail, error) {
	oldest, err := j.entriesBehind(ctx, b, t, 1)
	if err != nil || len(oldest) == 0 || !takenAt(oldest[0].ID).Before(before) {
		return t, err
	}
	next, err := j.after(ctx, b, t.next)
	if err == nil && takenAt(next.ID).Before(before) {
		if newer, err := j.entriesBehind(ctx, b, next, 1); err != nil || len(newer) == 0 {
			return t, err
		}
		return next, nil
	}
	if err == nil || !errors.Is(err, ErrNotFound) {
		return t, err
	}
	entries, err := j.entriesBehind(ctx, b, t, segmentSize+1)
	if err != nil || len(entries) <= segmentSize {
		return t, err
	}
	newest := entries[segmentSize-1]
	if !takenAt(newest.ID).Before(before) {
		return t, nil
	}
	end := tail{audit.Trimmed{ID: newest.ID, Hash: []byte(newest.FieldValues["h"])}, t.next + segmentSize}
	switch has, err := j.has(ctx, b, end); {
	case err != nil:
		return t, err
	case !has:
		return t, fmt.Errorf("entry %d of bucket %d is not in the journal: it stays in Valkey", end.next-1, b)
	}
	next, err = j.add(ctx, b, t, entries[:segmentSize])
	if err != nil || next.ID != newest.ID {
		return t, err
	}
	return next, nil
}

// cut removes the entries up to a tail from a stream, unless somebody else did.
func (j *Journal) cut(ctx context.Context, b keyspace.Bucket, mark string, t tail) (bool, error) {
	keys := []string{audit.Stream(b), audit.TrimmedKey(b), audit.HeadKey(b)}
	args := []string{mark, t.String(), idAfter(t.ID), fence}
	cut, err := trimScript.Exec(ctx, j.client, keys, args).AsInt64()
	if err != nil {
		return false, fmt.Errorf("trim stream: %w", err)
	}
	return cut == 1, nil
}

// idAfter is the id that follows an entry's.
func idAfter(id string) string {
	ms, sequence, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(sequence, 10, 64) // Valkey made it
	return ms + "-" + strconv.FormatUint(n+1, 10)
}
