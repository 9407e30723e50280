package app

import (
	"bytes"
	"context"
	"encoding/json"
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
	registry.KeyCreate: "It created the key; delete the key instead.",
	registry.KeyAdopt:  "It registered the caller; delete the caller instead.",
	registry.KeyDelete: "The secret and the counts of a deleted key cannot be restored.",
	registry.KeyRotate: "The previous secret cannot be restored.",
	registry.KeyExpire: "The previous secret cannot be restored.",
	registry.KeyReset:  "Deleted counts cannot be restored.",
	registry.KeyRevoke: "What was revoked stays revoked. Restore a key on its page.",
	registry.GroupReset: "Deleted counts cannot be restored.",
}

// Irreversible returns the reason why a change cannot be undone; empty if it can.
func Irreversible(action string) string {
	if !strings.HasPrefix(action, registry.OfKeys) && !strings.HasPrefix(action, registry.OfPolicy) {
		return "Only changes of keys and policies can be undone."
	}
	return irreversible[action]
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
