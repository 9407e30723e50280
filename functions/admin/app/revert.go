package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// ErrGone means that what the entry changed does not exist any more.
var ErrGone = errors.New("what the entry changed does not exist any more")

// Irreversible says why an entry cannot be reverted; empty if it can.
func Irreversible(e audit.Entry) string {
	switch {
	case !strings.HasPrefix(e.Action, audit.OfKeys) && !strings.HasPrefix(e.Action, audit.OfPolicy):
		return "Only changes of keys and of the policies can be taken back."
	case len(e.Before) == 0:
		return "It created this; delete it instead."
	case len(e.After) == 0:
		return "A deleted key's secret and counts are gone."
	case e.Action == audit.KeyRotate, e.Action == audit.KeyExpire:
		return "The old secret cannot come back."
	case e.Action == audit.KeyReset:
		return "The counts are gone."
	}
	return ""
}

// Reversal is a change that puts back what was before an entry. Whatever was changed
// since in the same key or in the policies is put back too.
type Reversal struct {
	Entry   audit.Entry
	Version int64       // of the subject as it is now
	Set     *policy.Set // in force
	// Before and After are the Set as it is and as it will be; nil when the entry is of a
	// key.
	Before, After *policy.Set
	// KeyBefore and KeyAfter are the key as it is and as it will be; without an ID when
	// the entry is of the policies.
	KeyBefore, KeyAfter policy.Key

	keys *Registry
}

// ReversalOf prepares the reversal of an entry that is not Irreversible. It fails with
// ErrGone.
func ReversalOf(ctx context.Context, keys *Registry, e audit.Entry) (Reversal, error) {
	set, err := keys.Set(ctx)
	if err != nil {
		return Reversal{}, err
	}
	r := Reversal{Entry: e, Set: set, keys: keys}
	if e.Subject == policyset.SetID {
		return r.ofSet()
	}
	return r.ofKey(ctx)
}

func (r Reversal) ofSet() (Reversal, error) {
	old := &policy.Set{}
	if err := json.Unmarshal(r.Entry.Before, old); err != nil {
		return r, fmt.Errorf("read entry: %w", err)
	}
	for i, p := range old.Plans {
		if _, kept := r.Set.Numbered(p.Number); !kept {
			old.Plans[i].Number = 0 // it is made anew
		}
	}
	r.Version, r.Before, r.After = r.Set.Version, r.Set, old
	return r, nil
}

func (r Reversal) ofKey(ctx context.Context) (Reversal, error) {
	var old policy.Key
	if err := json.Unmarshal(r.Entry.Before, &old); err != nil {
		return r, fmt.Errorf("read entry: %w", err)
	}
	current, err := r.keys.Get(ctx, r.Entry.Subject)
	if errors.Is(err, policy.ErrNotFound) {
		return r, ErrGone
	}
	if err != nil {
		return r, err
	}
	r.Version, r.KeyBefore, r.KeyAfter = current.Version, current, current
	restore(&r.KeyAfter, old)
	return r, nil
}

func restore(k *policy.Key, old policy.Key) {
	k.Name, k.Tags, k.Plan, k.Status = old.Name, old.Tags, old.Plan, old.Status
	k.Override, k.Expires, k.Banned, k.Allow = old.Override, old.Expires, old.Banned, old.Allow
	k.Group = old.Group
}

// Apply makes the change, based on a version of the subject, and returns the version that
// it has then. It fails as policy's SaveSet and Update do.
func (r Reversal) Apply(ctx context.Context, version int64, edit Edit) (int64, error) {
	if r.After != nil {
		saved, err := r.keys.SavePolicy(ctx, *r.After, version, edit)
		if saved == nil {
			return 0, err
		}
		return saved.Version, err
	}
	change := func(k *policy.Key) { restore(k, r.KeyAfter) }
	saved, err := r.keys.store.Update(ctx, r.Entry.Subject, version, audit.KeyRevert, edit, change)
	return saved.Version, err
}
