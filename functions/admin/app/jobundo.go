package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Why an undo leaves a key as it is.
const (
	errChanged keptError = "changed since"
	errDeleted keptError = "deleted since"
)

// keptError says why a key is left as it is.
type keptError string

// Error implements error.
func (e keptError) Error() string { return "app: " + string(e) }

// ErrRunning means that a job is to end, or to be stopped, before it is taken back.
var ErrRunning = errors.New("the job goes on: stop it first")

// ErrNoUndo means that a job changed nothing that could be taken back.
var ErrNoUndo = errors.New("nothing of this job can be taken back")

// UndoOf is a job that takes back what another changed. It fails with ErrRunning, and
// with ErrNoUndo when the audit has no change of the job.
func (r *Registry) UndoOf(ctx context.Context, j Job) (Job, error) {
	switch {
	case !j.Over() && !j.Stopped:
		return Job{}, ErrRunning
	case !j.Undoable():
		return Job{}, ErrNoUndo
	}
	undo := Job{Do: Undo, Undoes: j.ID, Total: j.Done}
	if j.Over() && j.Done == j.Processed() { // nothing was done again
		return undo, nil
	}
	n, whole, err := r.countChanges(ctx, j.ID)
	switch {
	case err != nil:
		return Job{}, err
	case whole && n == 0:
		return Job{}, ErrNoUndo
	case whole:
		undo.Total = n
	default:
		undo.Total = max(n, j.Done)
	}
	return undo, nil
}

// maxCountingChanges is how long the changes of a job are counted.
const maxCountingChanges = 2 * time.Second

// countChanges returns how many changes the audit has of a job, and whether it counted
// all.
func (r *Registry) countChanges(ctx context.Context, job string) (n int64, whole bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepEnds)
	defer cancel()
	after := ""
	for began := time.Now(); time.Since(began) < maxCountingChanges; {
		page, err := r.changesOf(ctx, job, after)
		if err != nil {
			return 0, false, err
		}
		n += int64(len(page.Entries))
		if after = page.Next; after == "" {
			return n, true, nil
		}
	}
	return n, false, nil
}

// clockSkew bounds how far the clocks of two shards are apart.
const clockSkew = 10 * time.Minute

// changesOf returns the next entries of a job, the newest first.
func (r *Registry) changesOf(ctx context.Context, job string, after string) (audit.Page, error) {
	start, err := r.recorded(ctx, job, audit.JobStart)
	if err != nil {
		return audit.Page{}, err
	}
	return r.store.Audit().List(ctx, audit.Query{
		Job: job, Action: audit.OfKeys, Since: start.Taken().Add(-clockSkew), After: after, Count: Chunk,
		Older: true,
	})
}

func (r *Registry) undoTasks(ctx context.Context, j Job) ([]task, string, error) {
	page, err := r.changesOf(ctx, j.Undoes, j.After)
	tasks := make([]task, len(page.Entries))
	for i, e := range page.Entries {
		tasks[i] = task{e.Subject, e.Name, func(ctx context.Context) (bool, error) {
			return r.takeBack(ctx, e, j.edit())
		}}
	}
	return tasks, page.Next, err
}

// takeBack reverts an entry of a key, unless the key was changed since. It reports
// whether there was anything to revert.
func (r *Registry) takeBack(ctx context.Context, e audit.Entry, edit Edit) (bool, error) {
	if why := Irreversible(e); why != "" {
		return false, keptError(why)
	}
	var old policy.Key
	if err := json.Unmarshal(e.Before, &old); err != nil {
		return false, fmt.Errorf("read entry: %w", err)
	}
	change := func(k *policy.Key) { restore(k, old) }
	saved, err := r.store.Update(ctx, e.Subject, e.Version, audit.KeyRevert, edit, change)
	switch {
	case errors.Is(err, policy.ErrConflict) && isAsBefore(saved, old):
		return false, nil // an interrupted step took it back, or somebody did
	case errors.Is(err, policy.ErrConflict):
		return false, errChanged
	case errors.Is(err, policy.ErrNotFound):
		return false, errDeleted
	}
	return saved.Version != e.Version, err
}

// isAsBefore reports whether putting old back would change nothing of a key.
func isAsBefore(k, old policy.Key) bool {
	restored := k
	restore(&restored, old)
	before, err := json.Marshal(k)
	if err != nil {
		return false
	}
	after, err := json.Marshal(restored)
	return err == nil && bytes.Equal(before, after)
}

// UndoPreview is what an undo would do with the newest changes of a job.
type UndoPreview struct {
	Back    int64 // keys that would be as they were before
	Same    int64 // keys that are already
	Changed int64 // keys that were changed or deleted since, and stay as they are
	Whole   bool  // all changes were looked at
}

// maxPreviewing is how long an undo is previewed.
const maxPreviewing = 5 * time.Second

// PreviewUndo looks at the changes of a job for a while.
func (r *Registry) PreviewUndo(ctx context.Context, set *policy.Set, j Job) (UndoPreview, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepEnds)
	defer cancel()
	var p UndoPreview
	after := ""
	for began := time.Now(); time.Since(began) < maxPreviewing; {
		page, err := r.changesOf(ctx, j.ID, after)
		if err != nil {
			return p, err
		}
		current, err := Records(ctx, r, set, page.Entries, func(e audit.Entry) string { return e.Subject })
		if err != nil {
			return p, err
		}
		for _, e := range page.Entries {
			p.add(e, current[e.Subject])
		}
		if after = page.Next; after == "" {
			p.Whole = true
			break
		}
	}
	return p, nil
}

func (p *UndoPreview) add(e audit.Entry, k policy.Key) {
	var old policy.Key
	switch {
	case k.ID != "" && k.Version == e.Version && Irreversible(e) == "":
		p.Back++
	case k.ID != "" && json.Unmarshal(e.Before, &old) == nil && isAsBefore(k, old):
		p.Same++
	default:
		p.Changed++
	}
}
