package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// Summary is what a restore of all buckets found and did.
type Summary struct {
	Found   map[Finding]int // buckets
	Lost    uint64          // entries that Valkey lacked
	Records int             // written, or to be written
	Deleted int             // likewise
	Written int             // buckets
	Left    int             // buckets that were not looked at before the time was over
}

// restorers is how many buckets are restored at a time: each is held in memory whole.
const restorers = 8

// RestoreAll restores every bucket and then the copies of the policies. It begins no
// bucket when due says so; a later RestoreAll does the rest. progress, if any, is called
// after each bucket. With ErrLeft some buckets were left as they are.
func (j *Journal) RestoreAll(
	ctx context.Context, keys *registry.Store, o Options, due func() bool, progress func(Summary),
) (Summary, error) {
	s := Summary{Found: map[Finding]int{}}
	var mu sync.Mutex
	var failed error
	var wait sync.WaitGroup
	slots := make(chan struct{}, restorers)
	for _, b := range keyspace.All() {
		slots <- struct{}{}
		if ctx.Err() != nil || due != nil && due() {
			s.Left++
			<-slots
			continue
		}
		wait.Go(func() {
			defer func() { <-slots }()
			found, err := j.Restore(ctx, keys, b, o)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			s.add(found)
			if progress != nil {
				progress(s)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil || o.DryRun || s.Left > 0 {
		return s, errors.Join(failed, ctx.Err())
	}
	if failed == nil {
		j.mu.Lock()
		j.looked, j.status = time.Now(), Status{}
		j.mu.Unlock()
	}
	return s, errors.Join(failed, keys.Sync(ctx))
}

func (s *Summary) add(b Bucket) {
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

// Log records that somebody restored Valkey.
func Log(ctx context.Context, keys *registry.Store, by registry.Edit) error {
	return keys.Audit().Append(ctx, audit.Entry{
		By: by.By, Action: audit.JournalRestore, Subject: audit.JournalSubject, Reason: by.Reason,
	})
}
