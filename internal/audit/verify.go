package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Verified is the outcome of Verify.
type Verified struct {
	Entries int64 // read from all chains
	// ids of up to 100 entries whose hash contradicts their body or the entry before
	Broken []string
	Cut    []Cut // chains that do not end as their heads say
	// chains that were not checked, because the journal did not return their oldest
	// entries
	Unread []keyspace.Bucket
}

// Good reports whether every chain was read completely and is unaltered.
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
	Last   string // id of the newest stored entry; empty if there is none
	// how many entries fewer than its head says the chain has; 0 if unknown
	Missing int64
}

const (
	verifiers   = 16  // chains that are read at a time
	verifyBatch = 500 // entries that are read at a time of one chain
	maxBroken   = 100
)

// Verify reads every chain from its start and checks all hashes and heads. It reads the
// entries that Valkey no longer has from the journal. Entries may be appended, and moved
// to the journal, meanwhile.
func (l *Log) Verify(ctx context.Context) (Verified, error) {
	found := make([]Verified, keyspace.Buckets)
	err := keyspace.ForEach(keyspace.All(), verifiers, func(b keyspace.Bucket) (err error) {
		found[b], err = l.verify(ctx, b)
		return err
	})
	var v Verified
	for _, one := range found {
		v.add(one)
	}
	return v, err
}

// verify checks one chain.
func (l *Log) verify(ctx context.Context, b keyspace.Bucket) (Verified, error) {
	trimmed, err := l.trimmed(ctx, b)
	for err == nil {
		r := chainReader{log: l, bucket: b, v: &Verified{}}
		err = r.readJournal(ctx, trimmed)
		if errors.Is(err, ErrOlderUnavailable) || errors.Is(err, ErrItem) {
			return Verified{Unread: []keyspace.Bucket{b}}, nil
		}
		if err == nil {
			_, err = r.readStream(ctx, nil)
		}
		before := trimmed
		if err == nil {
			trimmed, err = l.trimmed(ctx, b)
		}
		if err == nil && trimmed.First == before.First { // otherwise entries were trimmed meanwhile
			err = r.checkEnd(ctx)
			return *r.v, err
		}
	}
	return Verified{}, err
}

// trimmed returns which entries of a bucket are only in the journal.
func (l *Log) trimmed(ctx context.Context, b keyspace.Bucket) (Trimmed, error) {
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

// readJournal reads the entries that the stream lacks from the journal.
func (r *chainReader) readJournal(ctx context.Context, trimmed Trimmed) error {
	for first := uint64(1); first <= trimmed.First; first = uint64(r.entries) + 1 {
		s, err := r.log.segment(ctx, r.bucket, first)
		if err != nil {
			return err
		}
		for _, x := range s.Entries {
			r.check(x)
		}
	}
	return nil
}

// readStream reads on to the end of the chain's stream. It reports whether an entry that
// it read has the hash.
func (r *chainReader) readStream(ctx context.Context, hash []byte) (found bool, err error) {
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
			r.check(x)
			r.last = x.ID
			found = found || bytes.Equal(r.hash, hash)
		}
		if len(entries) < verifyBatch {
			return found, nil
		}
	}
}

// check checks the next entry.
func (r *chainReader) check(x valkey.XRangeEntry) {
	hash := []byte(x.FieldValues["h"])
	if !hmac.Equal(hash, r.log.key.hash(r.bucket, r.hash, []byte(x.FieldValues["e"]))) &&
		len(r.v.Broken) < maxBroken {
		r.v.Broken = append(r.v.Broken, idOf(r.bucket, x))
	}
	r.hash = hash
	r.entries++
	r.v.Entries++
}

// checkEnd compares the chain to its head. The head's newest entry must be the last one
// read, or one that was appended since.
func (r *chainReader) checkEnd(ctx context.Context) error {
	head, err := r.log.Head(ctx, r.bucket)
	if err != nil {
		return err
	}
	entries, newest := decodeHead(head)
	good := r.log.key.validHead(r.bucket, head)
	if len(head) == 0 && r.entries == 0 || good && bytes.Equal(newest, r.hash) {
		return nil
	}
	cut := Cut{Bucket: r.bucket}
	if good {
		if found, err := r.readStream(ctx, newest); found || err != nil {
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
