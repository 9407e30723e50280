package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// IrreversibleError is the reason why a change is not reverted, as a sentence.
type IrreversibleError string

// Error implements error.
func (e IrreversibleError) Error() string { return "app: " + string(e) }

// The reasons that an entry does not have from the start.
const (
	errChanged  IrreversibleError = "The key was changed since."
	errDeleted  IrreversibleError = "The key was deleted since."
	errPlanGone IrreversibleError = "The plan that the key had was deleted since."
)

var (
	// ErrRunning means that a job must end or be stopped before it can be undone.
	ErrRunning = errors.New("the job is running: stop it first")
	// ErrNoUndo means that a job changed nothing that can be reverted.
	ErrNoUndo = errors.New("the job changed nothing that can be undone")
)

// Irreversible returns the reason why an audit entry cannot be reverted; empty if it can.
func Irreversible(e audit.Entry) string {
	switch {
	case !strings.HasPrefix(e.Action, audit.OfKeys) && !strings.HasPrefix(e.Action, audit.OfPolicy):
		return "Only changes of keys and policies can be reverted."
	case len(e.Before) == 0:
		return "It created the key; delete the key instead."
	case len(e.After) == 0:
		return "The secret and the counts of a deleted key cannot be restored."
	case e.Action == audit.KeyRotate, e.Action == audit.KeyExpire:
		return "The previous secret cannot be restored."
	case e.Action == audit.KeyReset:
		return "Deleted counts cannot be restored."
	}
	return ""
}

// Reversal restores the state before an audit entry. It also reverts later changes of the
// same key or of the policies.
type Reversal struct {
	Entry   audit.Entry
	Version int64       // current version of the subject
	Set     *policy.Set // the set in force
	// Before and After are the set now and after the reversal; nil for an entry of a key.
	Before, After *policy.Set
	// KeyBefore and KeyAfter are the key now and after the reversal. They have no ID if
	// the entry is of the policies.
	KeyBefore, KeyAfter policy.Key
	Warnings            []string // to confirm; only an entry of the policies has some

	keys *Registry
}

// ReversalOf prepares the reversal of an entry. It returns an IrreversibleError for an
// entry that cannot be reverted, or not any more.
func ReversalOf(ctx context.Context, keys *Registry, e audit.Entry) (Reversal, error) {
	if reason := Irreversible(e); reason != "" {
		return Reversal{}, IrreversibleError(reason)
	}
	set, err := keys.Set(ctx)
	if err != nil {
		return Reversal{}, err
	}
	r := Reversal{Entry: e, Set: set, keys: keys}
	if e.Subject == policyset.SetID {
		return r.ofSet(ctx)
	}
	return r.ofKey(ctx)
}

func (r Reversal) ofSet(ctx context.Context) (Reversal, error) {
	old := &policy.Set{}
	if err := json.Unmarshal(r.Entry.Before, old); err != nil {
		return r, fmt.Errorf("read entry: %w", err)
	}
	for i, p := range old.Plans {
		if _, exists := r.Set.PlanByNumber(p.Number); !exists {
			old.Plans[i].Number = 0 // the deleted plan is created again, under a new number
		}
	}
	for i, route := range old.Routes {
		same := func(known limits.Route) bool { return known.ID == route.ID }
		if !slices.ContainsFunc(r.Set.Routes, same) {
			old.Routes[i].ID = "" // so is a deleted route
		}
	}
	r.Version, r.Before, r.After = r.Set.Version, r.Set, old
	var err error
	r.Warnings, err = r.keys.JudgePolicy(ctx, r.Before, *r.After)
	if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
		err = nil // Apply says what is wrong
	}
	return r, err
}

func (r Reversal) ofKey(ctx context.Context) (Reversal, error) {
	var old policy.Key
	if err := json.Unmarshal(r.Entry.Before, &old); err != nil {
		return r, fmt.Errorf("read entry: %w", err)
	}
	current, err := r.keys.Get(ctx, r.Entry.Subject)
	if errors.Is(err, policy.ErrNotFound) {
		return r, errDeleted
	}
	if err != nil {
		return r, err
	}
	if !hasPlan(r.Set, old) {
		return r, errPlanGone
	}
	r.Version, r.KeyBefore, r.KeyAfter = current.Version, current, current
	restoreFields(&r.KeyAfter, old)
	r.KeyAfter.Plan = r.Set.PlanName(old.PlanNumber)
	return r, nil
}

// hasPlan reports whether the plan that a key had still exists, whatever its name.
func hasPlan(set *policy.Set, old policy.Key) bool {
	_, found := set.PlanByNumber(old.PlanNumber)
	return found || old.PlanNumber == 0
}

// restoreFields sets what an edit can change of a key to its value in old. The plan's
// number decides, since the plan may have another name by now.
func restoreFields(k *policy.Key, old policy.Key) {
	k.Name, k.Tags, k.PlanNumber, k.Status = old.Name, old.Tags, old.PlanNumber, old.Status
	k.Override, k.Expires, k.Banned, k.Opens = old.Override, old.Expires, old.Banned, old.Opens
	k.Group = old.Group
}

// Apply makes the change to a version of the subject and returns the new version. Its
// errors are those of SavePolicy and of registry.Store.Update.
func (r Reversal) Apply(
	ctx context.Context, version int64, edit Edit, accepts func(warnings []string) bool,
) (int64, error) {
	if r.After != nil {
		saved, err := r.keys.SavePolicy(ctx, *r.After, version, edit, accepts)
		if saved == nil {
			return 0, err
		}
		return saved.Version, err
	}
	saved, err := r.keys.revertKey(ctx, r.Entry.Subject, version, r.KeyAfter, edit)
	return saved.Version, err
}

// revertKey gives a version of a key the fields of old.
func (r *Registry) revertKey(
	ctx context.Context, id string, version int64, old policy.Key, edit Edit,
) (policy.Key, error) {
	restore := func(k *policy.Key) { restoreFields(k, old) }
	return r.store.Update(ctx, id, version, audit.KeyRevert, edit, restore)
}

// UndoingJob returns a job, not yet started, that reverts the changes of another. It returns
// ErrRunning, or ErrNoUndo if the audit has no change of the job.
func (r *Registry) UndoingJob(ctx context.Context, j Job) (Job, error) {
	switch {
	case !j.Over() && !j.Stopped:
		return Job{}, ErrRunning
	case !j.Undoable():
		return Job{}, ErrNoUndo
	}
	undo := Job{KeyChange: KeyChange{Do: Undo}, Undoes: j.ID, Total: j.Done}
	if j.Over() && j.Done == j.Processed() { // no chunk was repeated, so Done is exact
		return undo, nil
	}
	n := int64(0)
	count := func(_ context.Context, changes []audit.Entry) error {
		n += int64(len(changes))
		return nil
	}
	complete, err := r.eachChange(ctx, j.ID, maxCountingChanges, count)
	switch {
	case err != nil:
		return Job{}, err
	case complete && n == 0:
		return Job{}, ErrNoUndo
	case complete:
		undo.Total = n
	default:
		undo.Total = max(n, j.Done)
	}
	return undo, nil
}

const (
	maxCountingChanges = 2 * time.Second // how long UndoingJob counts the changes of a job
	maxPreviewing      = 5 * time.Second // how long PreviewUndo reads them
)

// eachChange calls do with the changes of a job, a page at a time, the newest first. It
// begins no page after limit, and reports whether do has got all changes.
func (r *Registry) eachChange(ctx context.Context, job string, limit time.Duration,
	do func(context.Context, []audit.Entry) error) (complete bool, err error) {
	after := ""
	for began := time.Now(); time.Since(began) < limit; {
		page, err := r.changesOf(ctx, job, after)
		if err != nil {
			return false, err
		}
		if err := do(ctx, page.Entries); err != nil {
			return false, err
		}
		if after = page.Next; after == "" {
			return true, nil
		}
	}
	return false, nil
}

// clockSkew bounds how far the clocks of two shards are apart.
const clockSkew = 10 * time.Minute

// changesOf returns the next page of a job's changes, the newest first.
func (r *Registry) changesOf(ctx context.Context, job string, after string) (audit.Page, error) {
	start, err := r.newestEntry(ctx, job, audit.JobStart)
	if err != nil {
		return audit.Page{}, err
	}
	return r.store.Audit().List(ctx, audit.Query{
		Job: job, Action: audit.OfKeys, Since: start.Taken().Add(-clockSkew), After: after, Count: Chunk,
		Older: true,
	})
}

// undoTasks returns tasks that revert the next changes of the job that j undoes, and the
// cursor behind them.
func (r *Registry) undoTasks(ctx context.Context, set *policy.Set, j Job) ([]task, string, error) {
	page, err := r.changesOf(ctx, j.Undoes, j.After)
	tasks := make([]task, len(page.Entries))
	for i, e := range page.Entries {
		tasks[i] = task{e.Subject, e.Name, func(ctx context.Context) (bool, error) {
			return r.revertEntry(ctx, set, e, j.edit())
		}}
	}
	return tasks, page.Next, err
}

// revertEntry reverts an entry of a key and reports whether that changed the key. It
// returns an IrreversibleError if the key was changed or its plan deleted since.
func (r *Registry) revertEntry(ctx context.Context, set *policy.Set, e audit.Entry, edit Edit) (bool, error) {
	if reason := Irreversible(e); reason != "" {
		return false, IrreversibleError(reason)
	}
	var old policy.Key
	if err := json.Unmarshal(e.Before, &old); err != nil {
		return false, fmt.Errorf("read entry: %w", err)
	}
	if !hasPlan(set, old) {
		return false, errPlanGone
	}
	saved, err := r.revertKey(ctx, e.Subject, e.Version, old, edit)
	switch {
	case errors.Is(err, policy.ErrConflict) && isReverted(saved, old):
		return false, nil // an interrupted step or another user reverted it
	case errors.Is(err, policy.ErrConflict):
		return false, errChanged
	case errors.Is(err, policy.ErrNotFound):
		return false, errDeleted
	}
	return saved.Version != e.Version, err
}

// isReverted reports whether a key has the fields of old already.
func isReverted(k, old policy.Key) bool {
	restored := k
	restoreFields(&restored, old)
	return sameFields(k, restored)
}

// sameFields reports whether two states of a key have the same fields.
func sameFields(a, b policy.Key) bool {
	before, err := json.Marshal(a)
	if err != nil {
		return false
	}
	after, err := json.Marshal(b)
	return err == nil && bytes.Equal(before, after)
}

// UndoPreview is the number of keys that an undo would change or leave, of the newest
// changes of a job.
type UndoPreview struct {
	Back     int64 // keys that would be reverted
	Same     int64 // keys that are already reverted
	Changed  int64 // keys that were changed or deleted since and would stay unchanged
	Planless int64 // keys whose plan was deleted since and that would stay unchanged
	Whole    bool  // the counts include all changes of the job
}

// PreviewUndo previews the undo of a job. It reads the job's changes for up to
// maxPreviewing.
func (r *Registry) PreviewUndo(ctx context.Context, set *policy.Set, j Job) (p UndoPreview, err error) {
	add := func(ctx context.Context, changes []audit.Entry) error {
		current, err := Records(ctx, r, set, changes, func(e audit.Entry) string { return e.Subject })
		if err != nil {
			return err
		}
		for _, e := range changes {
			p.add(set, e, current[e.Subject])
		}
		return nil
	}
	p.Whole, err = r.eachChange(ctx, j.ID, maxPreviewing, add)
	return p, err
}

func (p *UndoPreview) add(set *policy.Set, e audit.Entry, k policy.Key) {
	var old policy.Key
	readable := json.Unmarshal(e.Before, &old) == nil
	switch {
	case k.ID != "" && k.Version == e.Version && Irreversible(e) == "" && !hasPlan(set, old):
		p.Planless++
	case k.ID != "" && k.Version == e.Version && Irreversible(e) == "":
		p.Back++
	case k.ID != "" && readable && isReverted(k, old):
		p.Same++
	default:
		p.Changed++
	}
}
