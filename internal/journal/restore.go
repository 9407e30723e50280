package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/objects"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// Options of a restore.
type Options struct {
	DryRun bool
	Force  bool      // revert changes that the journal lacks
	Until  time.Time // the state to restore; zero for the newest
}

// ErrNotRestored means that a restore did not change a bucket, because Valkey has changes
// there that the journal lacks.
var ErrNotRestored = errors.New("not restored")

// Finding is the result of comparing a bucket in Valkey with the journal.
type Finding string

// The findings. They compare heads: the records of a bucket that is Same are not read.
const (
	Same    Finding = "same"    // Valkey has what the journal has
	Behind  Finding = "behind"  // Valkey lost the newest changes, or all
	Newer   Finding = "newer"   // Valkey has changes that the journal lacks
	Differs Finding = "differs" // Valkey has other changes than the journal
)

// Summary is the result of a restore of all buckets.
type Summary struct {
	Found   map[Finding]int // buckets
	Lost    uint64          // entries that Valkey lacked
	Records int             // written, or to be written
	Deleted int             // deleted, or to be deleted
	Written int             // buckets
	Left    int             // buckets that were not begun when the time was over
}

// restorers is how many buckets are restored at a time. All their records are in memory.
const restorers = 8

// RestoreAll restores every bucket and then the copies of the policies. Once due, if any,
// reports true, it begins no other bucket; a later RestoreAll does the rest. progress, if
// any, is called after each bucket. A bucket with ErrNotRestored does not stop it.
func (j *Journal) RestoreAll(
	ctx context.Context, keys *registry.Store, o Options, due func() bool, progress func(Summary),
) (Summary, error) {
	s := Summary{Found: map[Finding]int{}}
	var mu sync.Mutex // guards s and the calls of due and progress
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil && (due == nil || !due()) {
			return false
		}
		s.Left++
		return true
	}
	failed := keyspace.ForEach(keyspace.All(), restorers, func(b keyspace.Bucket) error {
		if over() {
			return nil
		}
		found, err := j.restoreBucket(ctx, keys, b, o)
		mu.Lock()
		defer mu.Unlock()
		s.add(found)
		if progress != nil {
			progress(s)
		}
		return err
	})
	if ctx.Err() != nil || o.DryRun || s.Left > 0 {
		return s, errors.Join(failed, ctx.Err())
	}
	if failed == nil {
		j.mu.Lock()
		j.statusAt, j.status = time.Now(), Status{}
		j.mu.Unlock()
	}
	return s, errors.Join(failed, keys.Sync(ctx))
}

func (s *Summary) add(b bucketResult) {
	if b.Found != "" {
		s.Found[b.Found]++
	}
	s.Lost += b.Lost
	s.Records += b.Records
	s.Deleted += b.Deleted
	if b.Written {
		s.Written++
	}
}

// Log records in the audit that somebody restored Valkey.
func Log(ctx context.Context, keys *registry.Store, by registry.Edit) error {
	return keys.Audit().Append(ctx, audit.Entry{
		By: by.By, Action: audit.JournalRestore, Subject: audit.JournalSubject, Reason: by.Reason,
	})
}

// bucketResult is what a restore finds and does in one bucket. In a dry run, Records and
// Deleted are what a restore would write and delete.
type bucketResult struct {
	Found   Finding
	Lost    uint64 // entries that Valkey lacks, if Found is Behind; otherwise 0
	Records int    // records that are written
	Deleted int    // records that are deleted, if Valkey has them
	Written bool
}

// keyLists adds keys to the lists of keys. *registry.Store has it.
type keyLists interface {
	AddToLists(ctx context.Context, records map[string][]byte) error
}

// restoreBucket gives a bucket of Valkey the state that the journal has. It checks the
// chain. If it is interrupted, nothing can be changed in the bucket until it is restored
// again. It takes over a bucket from another restore, and fails if another restore takes
// over this one. With ErrNotRestored nothing is done.
func (j *Journal) restoreBucket(
	ctx context.Context, lists keyLists, b keyspace.Bucket, o Options,
) (bucketResult, error) {
	if !o.DryRun {
		if _, err := j.ship(ctx, b); err != nil && !errors.Is(err, audit.ErrBehind) {
			return bucketResult{}, err
		}
	}
	head, err := j.head(ctx, b)
	if err != nil {
		return bucketResult{}, err
	}
	if isFence(head) && !o.DryRun { // before reading the journal, which the other restore may change
		w, err := j.placeFence(ctx, b, head)
		if err != nil {
			return bucketResult{}, err
		}
		head = []byte(w.head)
	}
	target, _, err := j.replay(ctx, b)
	if err != nil {
		return bucketResult{}, err
	}
	var result bucketResult
	if result.Found, err = j.compare(ctx, target, head); err != nil {
		return result, err
	}
	if !o.Until.IsZero() {
		if err := j.revertTo(ctx, target, o.Until); err != nil {
			return result, err
		}
	} else if result.Found == Same {
		return result, relist(ctx, lists, target, o)
	}
	if target.number == 0 { // the journal has nothing of this bucket yet
		return result, nil
	}
	switch {
	case o.Force:
	case result.Found == Newer:
		return result, fmt.Errorf("bucket %d has changes that the journal lacks, and is %w: start the "+
			"admin function to store them, or revert them with -force", b, ErrNotRestored)
	case result.Found == Differs:
		return result, fmt.Errorf("bucket %d has other changes than the journal, and is %w: revert them "+
			"with -force", b, ErrNotRestored)
	}
	if result.Found == Behind {
		found, _, _ := j.key.Position(b, head) // 0 of a fence
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
	return result, j.write(ctx, lists, target, head, result.Found, !o.Until.IsZero())
}

// relist lists the keys of a bucket that is Same: a failover may have lost their entries,
// which are in another shard.
func relist(ctx context.Context, lists keyLists, s *state, o Options) error {
	if o.DryRun {
		return nil
	}
	return lists.AddToLists(ctx, s.keys())
}

// compare compares a head in Valkey with the journal's newest state of the bucket.
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
	case errors.Is(err, objects.ErrNotFound): // the entry is older than the journal
		return Behind, nil
	case err != nil:
		return "", err
	case !bytes.Equal(item.Hash, hash):
		return Differs, nil
	}
	return Behind, nil
}

// revertTo gives a state the records that it had at a time. The position stays, because
// later entries stay in the audit. Records that change get new versions, so that no edit
// succeeds that is based on a reverted record.
func (j *Journal) revertTo(ctx context.Context, s *state, until time.Time) error {
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
			newest[name{c.Key, c.Field}] = c.Record // deleted later
		}
	}
	for n := range s.records {
		then.records[n] = n.withNextVersion(then.records[n], newest[n])
	}
	s.records, s.taken = then.records, time.Now().UTC()
	return nil
}

// withNextVersion returns an older record under the version after the newest's. If both
// are equal, it returns the record as it is.
func (n name) withNextVersion(older, newest []byte) []byte {
	at := policyset.VersionAt
	switch {
	case n.key == policyset.SetKey:
		at = 0
	case n.keyID() == "": // it has no version
		return older
	}
	if min(len(older), len(newest)) < at+4 || bytes.Equal(older, newest) {
		return older
	}
	r := bytes.Clone(older)
	binary.BigEndian.PutUint32(r[at:], binary.BigEndian.Uint32(newest[at:])+1)
	return r
}

// write gives a bucket of Valkey the state. It first deletes the bucket's copy of the
// plans. From then on, until the policies are repaired, checks are decided as without
// Valkey. With saveState, write stores the state as the bucket's checkpoint too.
func (j *Journal) write(
	ctx context.Context, lists keyLists, s *state, head []byte, found Finding, saveState bool,
) error {
	b := s.bucket
	from := uint64(0)
	if found == Behind || found == Same {
		from, _, _ = j.key.Position(b, head) // 0 of a fence
	}
	w, err := j.placeFence(ctx, b, head)
	if err != nil {
		return err
	}
	unshipped, err := j.unshippedRecords(ctx, b)
	if err != nil {
		return err
	}
	w.add("DEL", policyset.CopyKey(b))
	w.add("DEL", audit.UnshippedKey(b))
	if err := w.writeRecords(ctx, s, unshipped); err != nil {
		return err
	}
	// Readers of the lists remove a key whose record is not there yet.
	if err := lists.AddToLists(ctx, s.keys()); err != nil {
		return err
	}
	if err := w.writeEntries(ctx, s, from); err != nil {
		return err
	}
	if saveState {
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
	j.setKnown(b, s.position)
	return nil
}

// unshippedRecords names the records that unshipped entries of a bucket changed. A
// restore reverts these changes.
func (j *Journal) unshippedRecords(ctx context.Context, b keyspace.Bucket) ([]name, error) {
	items, err := j.unshipped(ctx, b)
	if err != nil {
		return nil, err
	}
	var names []name
	for _, text := range items {
		if item, err := j.key.OpenItem([]byte(text)); err == nil && item.Change != nil {
			names = append(names, name{item.Change.Key, item.Change.Field})
		}
	}
	return names, nil
}
