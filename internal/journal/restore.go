package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Finding is the result of comparing a bucket in Valkey with the journal.
type Finding string

// The findings. Records of a bucket that is Same are not looked at.
const (
	Same    Finding = "same"    // it has what the journal has
	Behind  Finding = "behind"  // it lost the newest changes, or all
	Newer   Finding = "newer"   // it has changes that the journal lacks
	Differs Finding = "differs" // it has other changes than the journal
)

// Bucket is what a restore finds, and does, in one bucket.
type Bucket struct {
	Number  keyspace.Bucket
	Found   Finding
	Lost    uint64 // entries that Valkey lacks; 0 when it differs
	Records int    // that are written
	Deleted int    // that are removed, if they are there
	Written bool
}

// ErrLeft means that a restore left a bucket as it is, since Valkey has changes there that
// the journal lacks.
var ErrLeft = errors.New("left as it is")

// Options of a restore.
type Options struct {
	DryRun bool
	Force  bool      // take back what the journal lacks
	Until  time.Time // the state to restore; zero for the newest
}

// Lists adds keys to the lists of keys. *registry.Store has it.
type Lists interface {
	AddToLists(ctx context.Context, records map[string][]byte) error
}

// Restore makes a bucket of Valkey what the journal says. It checks the chain on the way.
// When it is interrupted nothing can be changed in the bucket until it is restored again.
// It takes over a bucket that another restore has, and fails when another takes over its
// own. With ErrLeft nothing is done.
func (j *Journal) Restore(ctx context.Context, lists Lists, b keyspace.Bucket, o Options) (Bucket, error) {
	if !o.DryRun {
		if _, err := j.ship(ctx, b); err != nil && !errors.Is(err, audit.ErrBehind) {
			return Bucket{Number: b}, err
		}
	}
	head, err := j.head(ctx, b)
	if err != nil {
		return Bucket{Number: b}, err
	}
	if isFence(head) && !o.DryRun { // before the journal is read, which the other may change
		w, err := j.fenceOff(ctx, b, head)
		if err != nil {
			return Bucket{Number: b}, err
		}
		head = []byte(w.head)
	}
	target, _, err := j.replay(ctx, b)
	if err != nil {
		return Bucket{Number: b}, err
	}
	result := Bucket{Number: b}
	if result.Found, err = j.compare(ctx, target, head); err != nil {
		return result, err
	}
	if !o.Until.IsZero() {
		if err := j.setBack(ctx, target, o.Until); err != nil {
			return result, err
		}
	} else if result.Found == Same {
		return result, nil
	}
	if target.number == 0 { // the journal begins with the next change here
		return result, nil
	}
	switch {
	case o.Force:
	case result.Found == Newer:
		return result, fmt.Errorf("bucket %d has changes that the journal lacks, and is %w: a start of the "+
			"admin function stores them, and -force takes them back", b, ErrLeft)
	case result.Found == Differs:
		return result, fmt.Errorf("bucket %d has other changes than the journal, and is %w: -force takes "+
			"them back", b, ErrLeft)
	}
	if result.Found == Behind {
		found, _, _ := j.key.Position(b, head) // of a fence: 0
		result.Lost = target.number - found
	}
	for _, content := range target.records {
		if content == nil {
			result.Deleted++
		} else {
			result.Records++
		}
	}
	if o.DryRun {
		return result, nil
	}
	result.Written = true
	return result, j.write(ctx, lists, target, head, result.Found, o)
}

// compare finds what a head of Valkey is to the journal's newest state.
func (j *Journal) compare(ctx context.Context, target *state, head []byte) (Finding, error) {
	number, hash, ok := j.key.Position(target.bucket, head)
	switch {
	case isFence(head):
		return Behind, nil
	case !ok:
		return Differs, nil
	case number == target.number && bytes.Equal(hash, target.hash):
		return Same, nil
	case number == 0:
		return Behind, nil
	case number > target.number:
		return Newer, nil
	case number == target.number:
		return Differs, nil
	}
	item, err := j.entry(ctx, target.bucket, number)
	switch {
	case errors.Is(err, ErrNotFound): // from before the journal began
		return Behind, nil
	case err != nil:
		return "", err
	case !bytes.Equal(item.Hash, hash):
		return Differs, nil
	}
	return Behind, nil
}

// setBack gives a state the records that it had at a time, and keeps its position: what
// came later is taken back, not forgotten. Records that change get versions that nobody
// knows, so that no edit is taken that is based on what was taken back.
func (j *Journal) setBack(ctx context.Context, s *state, until time.Time) error {
	then, err := j.replayUntil(ctx, s.bucket, until)
	if err != nil {
		return err
	}
	newest := maps.Clone(s.records)
	for item, err := range j.entriesAfter(ctx, s.bucket, then.number) {
		if err != nil {
			return err
		}
		if c := item.Change; c != nil && c.Record != nil && s.records[name{c.Key, c.Field}] == nil {
			newest[name{c.Key, c.Field}] = c.Record // deleted since
		}
	}
	for n := range s.records {
		then.records[n] = n.renewed(then.records[n], newest[n])
	}
	s.records, s.taken = then.records, time.Now().UTC()
	return nil
}

// renewed is an older record under the version that follows the newest's. One that was
// not changed stays as it is.
func (n name) renewed(older, newest []byte) []byte {
	at := policyset.PublicAt
	switch {
	case n.key == policyset.SetKey:
		at = 0
	case n.idOf() == "": // it has no version
		return older
	}
	if min(len(older), len(newest)) < at+4 || bytes.Equal(older, newest) {
		return older
	}
	r := bytes.Clone(older)
	binary.BigEndian.PutUint32(r[at:], binary.BigEndian.Uint32(newest[at:])+1)
	return r
}

// write makes a bucket of Valkey the state. Checks are answered as without Valkey from
// the beginning, when the bucket's copy of the plans goes, until the policies are
// repaired.
func (j *Journal) write(
	ctx context.Context, lists Lists, s *state, head []byte, found Finding, o Options,
) error {
	b := s.bucket
	from := uint64(0)
	if found == Behind || found == Same {
		from, _, _ = j.key.Position(b, head) // 0 of a fence
	}
	w, err := j.fenceOff(ctx, b, head)
	if err != nil {
		return err
	}
	touched, err := j.touched(ctx, s)
	if err != nil {
		return err
	}
	w.add("DEL", policyset.CopyKey(b))
	w.add("DEL", audit.UnshippedKey(b))
	if err := w.writeRecords(ctx, lists, s, touched); err != nil {
		return err
	}
	if err := w.writeEntries(ctx, s, from); err != nil {
		return err
	}
	if !o.Until.IsZero() {
		if err := j.save(ctx, s); err != nil {
			return err
		}
	}
	next := ""
	if s.number > 0 {
		next = string(s.head(j.key))
	}
	if err := w.moveHead(ctx, next); err != nil {
		return err
	}
	j.know(b, s.position)
	return nil
}

// touched are the records that entries of Valkey changed which wait to be shipped: those
// that the journal does not take are undone.
func (j *Journal) touched(ctx context.Context, s *state) ([]name, error) {
	list := audit.UnshippedKey(s.bucket)
	items, err := j.client.Do(ctx, j.client.B().Lrange().Key(list).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("read unshipped items: %w", err)
	}
	var names []name
	for _, text := range items {
		if item, err := j.key.OpenItem([]byte(text)); err == nil && item.Change != nil {
			names = append(names, name{item.Change.Key, item.Change.Field})
		}
	}
	return names, nil
}
