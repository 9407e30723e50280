package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Verified is the outcome of Verify.
type Verified struct {
	Entries int64    // read in all
	Broken  []string // ids of entries whose hash does not fit what they say or the entry before, at most 100
	Cut     []Cut    // chains that do not end as their heads say
	// chains whose oldest entries the journal did not give, so that they were not checked
	Unread []keyspace.Bucket
}

// Good reports whether every chain was read whole and is unaltered.
func (v *Verified) Good() bool { return len(v.Broken)+len(v.Cut)+len(v.Unread) == 0 }

func (v *Verified) add(other Verified) {
	v.Entries += other.Entries
	v.Broken = append(v.Broken, other.Broken[:min(len(other.Broken), maxBroken-len(v.Broken))]...)
	v.Cut = append(v.Cut, other.Cut...)
	v.Unread = append(v.Unread, other.Unread...)
}

// Cut is a chain whose newest entry is not the one that its head names, or whose head is
// missing or forged.
type Cut struct {
	Bucket keyspace.Bucket
	Last   string // id of the newest entry there is; empty when there is none
	// Missing is how many entries of the head's number are missing; 0 when unknown.
	Missing int64
}

const (
	verifiers   = 16 // chains that are read at a time
	verifyBatch = 500
	maxBroken   = 100
)

// Verify reads every chain from its start and checks every hash and every head. Where
// Valkey no longer has the oldest entries, it reads them from the journal. Entries may be
// appended, and moved to the journal, meanwhile.
func (l *Log) Verify(ctx context.Context) (Verified, error) {
	found, errs := make([]Verified, keyspace.Buckets), make([]error, keyspace.Buckets)
	slots := make(chan struct{}, verifiers)
	var wait sync.WaitGroup
	for i, b := range keyspace.All() {
		slots <- struct{}{}
		wait.Go(func() {
			found[i], errs[i] = l.verify(ctx, b)
			<-slots
		})
	}
	wait.Wait()
	var v Verified
	for i := range found {
		v.add(found[i])
	}
	return v, errors.Join(errs...)
}

// verify checks one chain.
func (l *Log) verify(ctx context.Context, b keyspace.Bucket) (Verified, error) {
	lacks, err := l.lacks(ctx, b)
	for err == nil {
		r := chainReader{log: l, bucket: b, v: &Verified{}}
		err = r.older(ctx, lacks)
		if errors.Is(err, ErrOlderAway) || errors.Is(err, ErrItem) {
			return Verified{Unread: []keyspace.Bucket{b}}, nil
		}
		if err == nil {
			_, err = r.advance(ctx, nil)
		}
		before := lacks
		if err == nil {
			lacks, err = l.lacks(ctx, b)
		}
		if err == nil && lacks.First == before.First { // nothing was trimmed meanwhile
			err = r.end(ctx)
			return *r.v, err
		}
	}
	return Verified{}, err
}

// lacks returns which entries of a bucket are only in the journal.
func (l *Log) lacks(ctx context.Context, b keyspace.Bucket) (Trimmed, error) {
	text, err := l.client.Do(ctx, l.client.B().Get().Key(TrimmedKey(b)).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return Trimmed{}, fmt.Errorf("audit: verify: %w", err)
	}
	return ParseTrimmed(text), nil
}

// chainReader reads a chain from its start and checks it.
type chainReader struct {
	log     *Log
	bucket  keyspace.Bucket
	v       *Verified
	entries int64
	last    string // id of the last entry read from the stream
	hash    []byte // of the last entry read
}

// older reads the entries that the stream lacks from the journal.
func (r *chainReader) older(ctx context.Context, lacks Trimmed) error {
	for first := uint64(1); first <= lacks.First; first = uint64(r.entries) + 1 {
		s, err := r.log.segment(ctx, r.bucket, first)
		if err != nil {
			return err
		}
		for _, x := range s.Entries {
			r.step(x)
		}
	}
	return nil
}

// advance reads on to the chain's end in Valkey. It reports whether an entry that it read
// has the hash.
func (r *chainReader) advance(ctx context.Context, hash []byte) (found bool, err error) {
	for {
		start := "-"
		if r.last != "" {
			start = "(" + r.last
		}
		query := r.log.client.B().Xrange().Key(Stream(r.bucket)).Start(start).End("+").Count(
			verifyBatch).Build()
		entries, err := r.log.client.Do(ctx, query).AsXRange()
		if err != nil {
			return false, fmt.Errorf("audit: verify: %w", err)
		}
		for _, x := range entries {
			r.step(x)
			r.last = x.ID
			found = found || bytes.Equal(r.hash, hash)
		}
		if len(entries) < verifyBatch {
			return found, nil
		}
	}
}

// step checks the next entry.
func (r *chainReader) step(x valkey.XRangeEntry) {
	hash := []byte(x.FieldValues["h"])
	if !hmac.Equal(hash, r.log.key.hash(r.bucket, r.hash, []byte(x.FieldValues["e"]))) &&
		len(r.v.Broken) < maxBroken {
		r.v.Broken = append(r.v.Broken, idOf(r.bucket, x))
	}
	r.hash = hash
	r.entries++
	r.v.Entries++
}

// end reads the head and compares the chain to it. The head's newest entry must be the
// last one read, or one that was appended since.
func (r *chainReader) end(ctx context.Context) error {
	head, err := r.log.Head(ctx, r.bucket)
	if err != nil {
		return err
	}
	entries, newest := openHead(head)
	good := r.log.key.vouches(r.bucket, head)
	if len(head) == 0 && r.entries == 0 || good && bytes.Equal(newest, r.hash) {
		return nil
	}
	cut := Cut{Bucket: r.bucket}
	if good {
		if found, err := r.advance(ctx, newest); found || err != nil {
			return err
		}
		cut.Missing = max(0, int64(entries)-r.entries)
	}
	if r.last != "" {
		cut.Last = r.last + "-" + strconv.Itoa(int(r.bucket))
	}
	r.v.Cut = append(r.v.Cut, cut)
	return nil
}
