package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"fmt"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Verified is the outcome of Verify.
type Verified struct {
	Entries int64    // read in all
	Broken  []string // ids of entries whose hash does not fit what they say or the entry before, at most 100
	Cut     []Cut    // chains that do not end as their heads say
}

// Good reports whether all is as it was written.
func (v *Verified) Good() bool { return len(v.Broken) == 0 && len(v.Cut) == 0 }

// Cut is a chain whose newest entry is not the one that its head names, or whose head is
// missing or forged.
type Cut struct {
	Bucket keyspace.Bucket
	Last   string // id of the newest entry there is; empty when there is none
	// Missing is how many entries the head tells of beyond those there are; 0 when that
	// cannot be told.
	Missing int64
}

const (
	verifyBatch = 500
	maxBroken   = 100
)

// Verify reads every chain from its start and checks every hash and every head. Entries
// may be appended meanwhile.
func (l *Log) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	walks := make([]walk, keyspace.Buckets)
	heads := make(valkey.Commands, len(walks))
	for i, b := range keyspace.All() {
		walks[i] = walk{log: l, bucket: b, v: &v}
		if _, err := walks[i].on(ctx, nil); err != nil {
			return v, err
		}
		heads[i] = l.client.B().Get().Key(HeadKey(b)).Build()
	}
	for i, result := range l.client.DoMulti(ctx, heads...) {
		head, err := result.AsBytes()
		if err != nil && !valkey.IsValkeyNil(err) {
			return v, fmt.Errorf("audit: verify: %w", err)
		}
		if err := walks[i].judge(ctx, head); err != nil {
			return v, err
		}
	}
	return v, nil
}

// walk is a way along a chain.
type walk struct {
	log     *Log
	bucket  keyspace.Bucket
	v       *Verified
	entries int64
	last    string // id of the last entry that was read, in its stream
	hash    []byte // its
}

// on goes on to the chain's end and tells whether the hash is on the way.
func (w *walk) on(ctx context.Context, hash []byte) (found bool, err error) {
	for {
		start := "-"
		if w.entries > 0 {
			start = "(" + w.last
		}
		query := w.log.client.B().Xrange().Key(Stream(w.bucket)).Start(start).End("+").Count(
			verifyBatch).Build()
		entries, err := w.log.client.Do(ctx, query).AsXRange()
		if err != nil {
			return false, fmt.Errorf("audit: verify: %w", err)
		}
		for _, x := range entries {
			w.step(x)
			found = found || bytes.Equal(w.hash, hash)
		}
		if len(entries) < verifyBatch {
			return found, nil
		}
	}
}

// step checks an entry.
func (w *walk) step(x valkey.XRangeEntry) {
	hash := []byte(x.FieldValues["h"])
	if !hmac.Equal(hash, w.log.key.hash(w.bucket, w.hash, []byte(x.FieldValues["e"]))) &&
		len(w.v.Broken) < maxBroken {
		w.v.Broken = append(w.v.Broken, idOf(w.bucket, x))
	}
	w.last, w.hash = x.ID, hash
	w.entries++
	w.v.Entries++
}

// judge compares a chain to its head, which was read after it: the newest entry is the
// last one that was read, or one that came meanwhile.
func (w *walk) judge(ctx context.Context, head []byte) error {
	entries, newest := openHead(head)
	if len(head) == 0 && w.entries == 0 || w.log.key.vouches(w.bucket, head) && bytes.Equal(newest, w.hash) {
		return nil
	}
	cut := Cut{Bucket: w.bucket}
	if w.log.key.vouches(w.bucket, head) {
		if found, err := w.on(ctx, newest); found || err != nil {
			return err
		}
		cut.Missing = max(0, int64(entries)-w.entries)
	}
	if w.entries > 0 {
		cut.Last = w.last + "-" + strconv.Itoa(int(w.bucket))
	}
	w.v.Cut = append(w.v.Cut, cut)
	return nil
}
