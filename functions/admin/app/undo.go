package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// IrreversibleError is the reason why a change cannot be undone, as a sentence.
type IrreversibleError string

// Error implements error.
func (e IrreversibleError) Error() string { return "app: " + string(e) }

// irreversible has the reason why changes with an action cannot be undone.
var irreversible = map[string]string{
	registry.KeyCreate:  "It created the key; delete the key instead.",
	registry.KeyAdopt:   "It registered the caller; delete the caller instead.",
	registry.KeyDelete:  "The secret and the counts of a deleted key cannot be restored.",
	registry.KeyRotate:  "The previous secret cannot be restored.",
	registry.KeyExpire:  "The previous secret cannot be restored.",
	registry.KeyReset:   "Deleted counts cannot be restored.",
	registry.KeyRevoke:  "What was revoked stays revoked. Restore a key on its page.",
	registry.KeyBan:     "A ban stays. Unban the keys instead.",
	registry.GroupReset: "Deleted counts cannot be restored.",
}

// Irreversible returns the reason why a change cannot be undone; empty if it can.
func Irreversible(action string) string {
	if !strings.HasPrefix(action, registry.OfKeys) && !strings.HasPrefix(action, registry.OfPolicy) {
		return "Only changes of keys and policies can be undone."
	}
	return irreversible[action]
}

// Undo takes back what a change did, as a new change. What was changed since stays, and what
// was revoked stays revoked. Undo may return an IrreversibleError.
func (r *Registry) Undo(ctx context.Context, entry registry.AuditEntry, e Edit) error {
	if reason := Irreversible(entry.Action); reason != "" {
		return IrreversibleError(reason)
	}
	return Noted(ctx, r.store.Undo(ctx, entry.Number, e))
}

// UndoWarnings returns the warnings about undoing a change. Only a change of the policies
// has some.
func (r *Registry) UndoWarnings(ctx context.Context, entry registry.AuditEntry) ([]string, error) {
	if entry.Items != 1 || entry.Subjects[0].Record != PolicyRecord {
		return nil, nil
	}
	var before, after policy.Set
	s := entry.Subjects[0]
	if err := errors.Join(json.Unmarshal(s.Before, &before), json.Unmarshal(s.After, &after)); err != nil {
		return nil, fmt.Errorf("app: read change %d: %w", entry.Number, err)
	}
	warnings, err := r.JudgePolicy(ctx, &after, before)
	if _, invalid := errors.AsType[*policy.InvalidError](err); invalid {
		return nil, nil // the store says what is wrong
	}
	return warnings, err
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
