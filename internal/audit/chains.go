package audit

import (
	"cmp"
	"context"
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

// reader reads chains backwards, each from Valkey and then, when older is set, from the
// segments of the journal.
type reader struct {
	log     *Log
	buckets []keyspace.Bucket
	older   bool
	starts  map[keyspace.Bucket]uint64 // the segments that the next read begins with
}

// chain is what was read of a chain.
type chain struct {
	bucket keyspace.Bucket
	found  []valkey.XRangeEntry // newest first
	// oldest is how many of found are entries; the one behind them, if any, has a hash
	oldest int
	more   bool
	end    position // up to where the chain was read, when there is more
}

// stored is an entry as it was read, with the one before it.
type stored struct {
	at     position
	bucket keyspace.Bucket
	found  []valkey.XRangeEntry
}

// read returns entries after p and whether there are more: of each chain at most so many,
// and none that one not read may be newer than. It goes to the journal when nothing else
// is left.
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

// merge returns the entries of chains, newest first, down to where every chain was read.
func merge(chains []chain) (entries []stored, more bool) {
	var known position
	for _, c := range chains {
		for i, x := range c.found[:c.oldest] {
			entries = append(entries, stored{positionOf(idOf(c.bucket, x)), c.bucket, c.found[i:]})
		}
		if c.more && (!more || older(c.end, known) < 0) {
			known = c.end
		}
		more = more || c.more
	}
	slices.SortFunc(entries, func(a, b stored) int { return older(a.at, b.at) })
	if more {
		entries = slices.DeleteFunc(entries, func(e stored) bool { return older(e.at, known) > 0 })
	}
	return entries, more
}

// chains reads each chain after p. What a stream lacks is read after the stream: a stream
// that is trimmed meanwhile then has what it is said to have.
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
	chains, lacks := make([]chain, len(r.buckets)), make([]Trimmed, len(r.buckets))
	for i, b := range r.buckets {
		found, err := results[commandsEach*i].AsXRange()
		if err != nil {
			return nil, fmt.Errorf("audit: list: %w", err)
		}
		mark, err := results[commandsEach*i+1].ToString()
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("audit: list: %w", err)
		}
		chains[i], lacks[i] = chain{bucket: b, found: found}, ParseTrimmed(mark)
		if len(found) > each || !q.reaches(lacks[i]) {
			lacks[i] = Trimmed{}
		}
	}
	err := r.add(ctx, q, chains, lacks, p, each)
	for i := range chains {
		chains[i].close(each, lacks[i], q.Older, r.older)
	}
	return chains, err
}

// close finds out how far a chain was read: at most so many entries. Where a stream lacks
// some that are asked for and were not read, it has more.
func (c *chain) close(each int, lacks Trimmed, asked, read bool) {
	c.oldest, c.more = min(each, len(c.found)), len(c.found) > each
	if c.more {
		c.end = positionOf(idOf(c.bucket, c.found[c.oldest-1]))
		return
	}
	if lacks.First > 0 && !read {
		next := valkey.XRangeEntry{ID: lacks.ID, FieldValues: map[string]string{"h": string(lacks.Hash)}}
		c.found, c.more, c.end = append(c.found, next), asked, positionOf(idOf(c.bucket, next))
	}
}

// add reads what streams lack from the journal, for several chains at a time.
func (r *reader) add(
	ctx context.Context, q Query, chains []chain, lacks []Trimmed, p position, each int,
) error {
	if !r.older {
		return nil
	}
	if r.starts == nil {
		r.starts = map[keyspace.Bucket]uint64{}
	}
	var lock sync.Mutex
	var wait sync.WaitGroup
	var failed error
	slots := make(chan struct{}, maxSegments)
	starts := maps.Clone(r.starts)
	for i := range chains {
		c := &chains[i]
		if lacks[i].First == 0 {
			continue
		}
		start := cmp.Or(starts[c.bucket], lacks[i].First)
		slots <- struct{}{}
		wait.Go(func() {
			next, err := r.log.extend(ctx, c, q, start, p, each)
			lock.Lock()
			defer lock.Unlock()
			r.starts[c.bucket], failed = next, errors.Join(failed, err)
			<-slots
		})
	}
	wait.Wait()
	return failed
}

// extend adds entries of the journal to a chain, until it has one more than each. It
// returns the segment that has the newest of them.
func (l *Log) extend(
	ctx context.Context, c *chain, q Query, start uint64, p position, each int,
) (uint64, error) {
	if len(c.found) > 0 {
		p = positionOf(idOf(c.bucket, c.found[len(c.found)-1]))
	}
	begins := uint64(0)
	for first := start; first > 0 && len(c.found) <= each; {
		s, err := l.segment(ctx, c.bucket, first)
		if err != nil {
			return start, err
		}
		for _, x := range slices.Backward(s.Entries) {
			at := positionOf(idOf(c.bucket, x))
			if older(p, at) >= 0 || len(c.found) > each || q.before(at) {
				continue
			}
			c.found = append(c.found, x)
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
		return Segment{}, ErrOlderAway
	}
	return l.journal.Segment(ctx, b, first)
}
