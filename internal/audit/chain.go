package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// maxSegments is how many segments are read at a time.
const maxSegments = 32

// reader reads chains backwards: each from Valkey and then, if older is set, from the
// segments of the journal.
type reader struct {
	log     *Log
	buckets []keyspace.Bucket
	older   bool
	starts  map[keyspace.Bucket]uint64 // first segment of the next read, by bucket
}

// chain is the part of a chain that was read.
type chain struct {
	bucket  keyspace.Bucket
	entries []valkey.XRangeEntry // newest first
	// number of entries to return; the next, if any, has the hash before them
	count   int
	trimmed Trimmed  // wanted entries that are only in the journal
	more    bool     // whether the chain has more entries
	end     position // of the oldest entry that was read, if there are more
}

// stored is an entry as it was read.
type stored struct {
	at      position
	bucket  keyspace.Bucket
	entries []valkey.XRangeEntry // the entry, then older ones of the chain, if any
}

// read returns entries after p and whether there are more. It returns at most each
// entries of each chain, and none that is older than an entry not read yet. It reads the
// journal if Valkey has no more.
func (r *reader) read(ctx context.Context, q Query, p position, each int) ([]stored, bool, error) {
	chains, err := r.chains(ctx, q, p, each)
	if err != nil {
		return nil, false, err
	}
	entries, more := merge(chains)
	if len(entries) == 0 && more && q.Older && !r.older {
		r.older = true
		return r.read(ctx, q, p, each)
	}
	return entries, more, nil
}

// merge returns the entries of chains, newest first, up to where every chain was read.
func merge(chains []chain) (entries []stored, more bool) {
	var end position // nearest end of a chain with more entries
	for _, c := range chains {
		for i, x := range c.entries[:c.count] {
			entries = append(entries, stored{positionOf(idOf(c.bucket, x)), c.bucket, c.entries[i:]})
		}
		if c.more && (!more || older(c.end, end) < 0) {
			end = c.end
		}
		more = more || c.more
	}
	slices.SortFunc(entries, func(a, b stored) int { return older(a.at, b.at) })
	if more {
		entries = slices.DeleteFunc(entries, func(e stored) bool { return older(e.at, end) > 0 })
	}
	return entries, more
}

// chains reads each chain after p. It reads each stream before its Trimmed: if a stream
// is trimmed in between, the read entries include those that Trimmed says it lacks.
func (r *reader) chains(ctx context.Context, q Query, p position, each int) ([]chain, error) {
	const commandsEach = 2
	client := r.log.client
	commands := make(valkey.Commands, 0, commandsEach*len(r.buckets))
	for _, b := range r.buckets {
		commands = append(commands,
			client.B().Xrevrange().Key(Stream(b)).End(p.end(b)).Start(q.start()).Count(int64(each)+1).Build(),
			client.B().Get().Key(TrimmedKey(b)).Build())
	}
	results := client.DoMulti(ctx, commands...)
	chains := make([]chain, len(r.buckets))
	for i, b := range r.buckets {
		entries, err := results[commandsEach*i].AsXRange()
		if err != nil {
			return nil, fmt.Errorf("audit: list: %w", err)
		}
		mark, err := results[commandsEach*i+1].ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("audit: list: %w", err)
		}
		chains[i] = chain{bucket: b, entries: entries}
		if trimmed := ParseTrimmed(mark); len(entries) <= each && q.reaches(trimmed) {
			chains[i].trimmed = trimmed
		}
	}
	var err error
	if r.older {
		err = r.addOlder(ctx, q, chains, p, each)
	}
	for i := range chains {
		chains[i].close(each, q.Older, r.older)
	}
	return chains, err
}

// close sets count, more and end after a read of at most each entries. A chain has more
// if more than each entries were read, or if the query wants older entries of the journal
// and these were not read.
func (c *chain) close(each int, wantOlder, readOlder bool) {
	c.count, c.more = min(each, len(c.entries)), len(c.entries) > each
	if c.more {
		c.end = positionOf(idOf(c.bucket, c.entries[c.count-1]))
		return
	}
	if c.trimmed.First > 0 && !readOlder {
		next := valkey.XRangeEntry{ID: c.trimmed.ID,
			FieldValues: map[string]string{"h": string(c.trimmed.Hash)}}
		c.entries, c.more, c.end = append(c.entries, next), wantOlder, positionOf(idOf(c.bucket, next))
	}
}

// addOlder adds entries that streams lack from the journal, to several chains at a time.
func (r *reader) addOlder(ctx context.Context, q Query, chains []chain, p position, each int) error {
	byBucket := map[keyspace.Bucket]*chain{}
	var trimmed []keyspace.Bucket
	for i := range chains {
		if c := &chains[i]; c.trimmed.First > 0 {
			byBucket[c.bucket] = c
			trimmed = append(trimmed, c.bucket)
		}
	}
	var mu sync.Mutex
	starts := maps.Clone(r.starts)
	if r.starts == nil {
		r.starts = map[keyspace.Bucket]uint64{}
	}
	return keyspace.ForEach(trimmed, maxSegments, func(b keyspace.Bucket) error {
		c := byBucket[b]
		next, err := r.log.extend(ctx, c, q, cmp.Or(starts[b], c.trimmed.First), p, each)
		mu.Lock()
		defer mu.Unlock()
		r.starts[b] = next
		return err
	})
}

// extend adds entries of the journal to a chain until it has each+1. It begins with the
// segment start. It returns the segment that has the newest added entry, or start if it
// added none.
func (l *Log) extend(
	ctx context.Context, c *chain, q Query, start uint64, p position, each int,
) (uint64, error) {
	if len(c.entries) > 0 {
		p = positionOf(idOf(c.bucket, c.entries[len(c.entries)-1]))
	}
	begins := uint64(0)
	for first := start; first > 0 && len(c.entries) <= each; {
		s, err := l.segment(ctx, c.bucket, first)
		if err != nil {
			return start, err
		}
		for _, x := range slices.Backward(s.Entries) {
			at := positionOf(idOf(c.bucket, x))
			if older(p, at) >= 0 || len(c.entries) > each || q.before(at) {
				continue
			}
			c.entries = append(c.entries, x)
			if begins == 0 {
				begins = first
			}
		}
		if s.Before >= first {
			return start, ErrItem
		}
		first = s.Before
	}
	if begins == 0 {
		begins = start
	}
	return begins, nil
}

// segment reads a segment of the journal.
func (l *Log) segment(ctx context.Context, b keyspace.Bucket, first uint64) (Segment, error) {
	if l.journal == nil {
		return Segment{}, ErrOlderUnavailable
	}
	return l.journal.Segment(ctx, b, first)
}

// ErrOlderUnavailable means that older entries are only in the journal, which is
// unavailable or not configured.
var ErrOlderUnavailable = errors.New("older entries are only in the journal, which is unavailable")

// Segment is a run of entries of one chain that the journal stores in one object. The
// segments of a chain follow each other without a gap, from the first entry on.
type Segment struct {
	First   uint64               // number of its oldest entry
	Before  uint64               // First of the segment before; 0 for none
	Entries []valkey.XRangeEntry // as a stream has them, oldest first
}

// Trimmed says which entries a stream lacks at its beginning: all up to the end of a
// segment. The zero Trimmed means none.
type Trimmed struct {
	First uint64 // number of the segment's first entry
	ID    string // stream id of the segment's newest entry
	Hash  []byte // of the segment's newest entry
}

// TrimmedKey names the Trimmed of a bucket's stream.
func TrimmedKey(b keyspace.Bucket) string { return b.Name("at") }

// String returns the form that Valkey stores.
func (t Trimmed) String() string {
	if t.First == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s %x", t.First, t.ID, t.Hash)
}

// ParseTrimmed decodes the result of String. Any other text stands for no trimmed
// entries: if there are some, Verify finds that they are missing.
func ParseTrimmed(text string) Trimmed {
	var t Trimmed
	var hash string
	_, err := fmt.Sscanf(text, "%d %s %s", &t.First, &t.ID, &hash)
	if err != nil || !streamID(t.ID) {
		return Trimmed{}
	}
	if t.Hash, err = hex.DecodeString(hash); err != nil {
		return Trimmed{}
	}
	return t
}
