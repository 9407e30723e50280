package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// MaxKeys is how many keys UpdateMany changes at most.
const MaxKeys = 1000

// Many is what UpdateMany did.
type Many struct {
	Change  uint64 // number of the change; 0 if no key changed
	Changed []string
	Same    []string // the change alters nothing
	Failed  []Failure
}

// Failure is a key that UpdateMany did not change.
type Failure struct {
	ID, Name string
	Why      error // of change, an *InvalidError, ErrNotFound or policy.ErrUnreadable
}

// UpdateMany changes up to MaxKeys keys in one change of the log. change gets each current
// key and may alter what Update lets it alter; its error leaves the key as it is. It may be
// asked several times. With the action KeyReset, the counts of active keys begin anew.
func (s *Store) UpdateMany(ctx context.Context, ids []string, action string, edit Edit,
	change func(*policy.Key) error) (Many, error) {
	if err := edit.Validate(); err != nil {
		return Many{}, err
	}
	if len(ids) > MaxKeys {
		return Many{}, fmt.Errorf("registry: %d keys are more than %d", len(ids), MaxKeys)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var resets map[keyspace.Bucket]time.Time // none with another action
	if action == KeyReset {
		var err error
		if resets, err = s.serverTimes(ctx, ids); err != nil {
			return Many{}, err
		}
	}
	var many Many
	receipt, err := s.log.Edit(ctx, edit.change(action),
		func(ctx context.Context, r *changes.Reader) (items []changes.Item, err error) {
			many, items, err = s.judgeMany(ctx, r, ids, change, resets)
			return items, err
		})
	if err != nil {
		return Many{}, editError(err)
	}
	many.Change = receipt.Number
	return many, acknowledge(receipt)
}

func (s *Store) judgeMany(ctx context.Context, r *changes.Reader, ids []string,
	change func(*policy.Key) error, resets map[keyspace.Bucket]time.Time) (
	many Many, items []changes.Item, err error) {
	names := []string{changes.Policy}
	for _, id := range ids {
		if validID(id) {
			names = append(names, id)
		} else {
			many.Failed = append(many.Failed, Failure{ID: id, Why: policy.ErrNotFound})
		}
	}
	found, err := r.Get(ctx, names...)
	if err != nil {
		return many, nil, err
	}
	set, err := policyset.DecodeSet(found[0].Number, found[0].Content)
	if err != nil {
		return many, nil, err
	}
	var before, after []storedKey
	for _, record := range found[1:] {
		old, err := decodeKey(set, record)
		k := old
		if err == nil {
			var failed error
			err = alter(set, &k, func(k *policy.Key) { failed = change(k) })
			err = cmp.Or(failed, err)
		}
		if at, found := resets[keyspace.BucketOf(record.Name)]; found && k.Status == policy.Active {
			k.Reset = at
		}
		if err != nil {
			many.Failed = append(many.Failed, Failure{record.Name, old.Name, err})
			continue
		}
		before, after = append(before, old), append(after, k)
	}
	items, err = s.items(ctx, r, before, after)
	changed := map[string]bool{}
	for _, i := range items {
		changed[i.Record] = true
	}
	for _, k := range after {
		if changed[k.ID] {
			many.Changed = append(many.Changed, k.ID)
		} else {
			many.Same = append(many.Same, k.ID)
		}
	}
	return many, items, err
}
