package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// ErrNoUndo means that nothing of a change can be taken back: it was changed since, or it
// took rights away, which an undo never gives back.
var ErrNoUndo = errors.New("nothing of this change can be taken back")

// Undo takes back what a change did, as a new change. Of the policy it takes back only the
// parts that the change touched, and of keys the fields. What was changed since stays, and
// so do secrets, resets, revocations and bans. A key that the change created is deleted if
// nobody changed it since. Undo fails with ErrNoUndo, with ErrConflict if a part of the
// policy was changed since, and with an *InvalidError if the policy would be invalid.
func (s *Store) Undo(ctx context.Context, number uint64, edit Edit) error {
	if err := edit.Validate(); err != nil {
		return err
	}
	c, err := s.log.Change(ctx, number)
	if damaged, ok := errors.AsType[*changes.DamagedError](err); ok && damaged.Missing {
		return policy.ErrNotFound
	}
	if err != nil {
		return editError(err)
	}
	action := KeyRevert
	if strings.HasPrefix(c.Action, OfPolicy) {
		action = PolicyRevert
	}
	receipt, err := s.log.Undo(ctx, edit.change(action), number)
	switch {
	case err != nil:
		return editError(err)
	case receipt.Number == 0:
		return ErrNoUndo
	}
	return acknowledge(receipt)
}

// revert takes back, or does again, what led a record from one content to another. It is
// the Revert of changes.Options.
func revert(ctx context.Context, r *changes.Reader, record string, current, from, to []byte) ([]byte, error) {
	switch {
	case record == changes.Policy:
		return revertSet(ctx, r, current, from, to)
	case strings.HasPrefix(record, groupPrefix), strings.HasPrefix(record, tokenPrefix):
		return current, nil // what a reset forgot, or a token that was revoked
	}
	return revertKey(ctx, r, record, current, from, to)
}

func revertSet(ctx context.Context, r *changes.Reader, current, from, to []byte) ([]byte, error) {
	var sets [3]*policy.Set
	for i, content := range [][]byte{current, from, to} {
		var err error
		if sets[i], err = policyset.DecodeSet(0, content); err != nil {
			return nil, err
		}
	}
	next, err := merge(sets[1], sets[2], sets[0])
	if err != nil {
		return nil, err
	}
	after, err := checkSet(next)
	if err != nil {
		return nil, err
	}
	return after, checkDropped(next, sets[0], func(lists ...string) ([]int, error) {
		return countAt(ctx, r, lists)
	})
}

// revertKey reverts the fields of a key that nobody changed since.
func revertKey(ctx context.Context, r *changes.Reader, id string, current, from, to []byte) ([]byte, error) {
	set, _, err := readSet(ctx, r)
	if err != nil {
		return nil, err
	}
	decode := func(content []byte) (storedKey, bool) {
		k, err := decodeKey(set, changes.Record{Name: id, Content: content})
		return k, err == nil
	}
	now, exists := decode(current)
	before, known := decode(from)
	then, existed := decode(to)
	switch {
	case len(to) == 0 && slices.Equal(current, from): // it did not exist
		return nil, nil
	case len(current) == 0 && len(from) == 0 && existed && hasPlan(set, then): // it was deleted
		return to, nil
	case !exists || !known || !existed:
		return current, nil
	}
	k := now
	restore(&k.Name, before.Name, then.Name)
	restore(&k.Tags, before.Tags, then.Tags)
	restore(&k.Group, before.Group, then.Group)
	restore(&k.Opens, before.Opens, then.Opens)
	restore(&k.Override, before.Override, then.Override)
	restore(&k.Expires, before.Expires, then.Expires)
	restore(&k.Billing, before.Billing, then.Billing)
	if hasPlan(set, then) {
		restore(&k.PlanNumber, before.PlanNumber, then.PlanNumber)
	}
	if now.Status != policy.Revoked {
		restore(&k.Status, before.Status, then.Status)
	}
	if then.Banned.After(now.Banned) {
		restore(&k.Banned, before.Banned, then.Banned)
	}
	after, err := policyset.EncodeRecord(k.Key, k.hashes)
	if err != nil {
		return nil, fmt.Errorf("registry: revert key %s: %w", id, err)
	}
	return after, nil
}

// restore sets a field to its value then if it has the value that it had before.
func restore[T any](field *T, before, then T) {
	if same(*field, before) {
		*field = then
	}
}

// hasPlan reports whether the plan of a key exists, if it has one.
func hasPlan(set *policy.Set, k storedKey) bool {
	_, found := set.PlanByNumber(k.PlanNumber)
	return found || k.PlanNumber == 0
}
