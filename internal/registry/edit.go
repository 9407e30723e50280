package registry

import (
	"context"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

// Actor is the author of a change.
type Actor struct {
	Kind string `json:"kind"` // "user", "token" or "system"
	Name string `json:"name"`
}

// Edit says who changes something and why.
type Edit struct {
	By     Actor
	Reason string // up to 200 characters; may be empty
	// Version is the version that Reset and Delete are based on; 0 for any. Other changes
	// get it as an argument.
	Version int64
}

// Validate reports a Reason that is too long or not printable.
func (e Edit) Validate() error { panic("todo") }

// Actions of changes. The word before the first dot names the kind of record.
const (
	KeyCreate      = "key.create"
	KeyAdopt       = "key.adopt"
	KeyEdit        = "key.edit"
	KeyPlan        = "key.plan"
	KeyOverride    = "key.override"
	KeyOverrideEnd = "key.override.end"
	KeyRevoke      = "key.revoke"
	KeyUnrevoke    = "key.unrevoke"
	KeyRotate      = "key.rotate"
	KeyExpire      = "key.secret.expire" // of the previous secret
	KeyBan         = "key.ban"
	KeyUnban       = "key.unban"
	KeyReset       = "key.reset"
	KeyRevert      = "key.revert"
	KeyDelete      = "key.delete"
	GroupReset     = "group.reset"
	PolicySave     = "policy.save"
	GroupOverride  = "policy.override" // of a group
	GroupEnd       = "policy.override.end"
	TokenCreate    = "token.create"
	TokenRevoke    = "token.revoke"
	Undone         = "undo"
)

// Prefixes of actions.
const (
	OfKeys   = "key."
	OfPolicy = "policy."
	OfTokens = "token."
)

// Create stores a new API key under a fresh id and returns it with its secret. With
// changes.ErrUnknown the secret is returned too: the key may be stored.
func (s *Store) Create(ctx context.Context, n policy.NewKey, edit Edit) (policy.Key, apikey.Secret, error) {
	panic("todo")
}

// Adopt stores a record for a caller without an API key. It fails with ErrConflict if
// there is one.
func (s *Store) Adopt(ctx context.Context, kind policy.Kind, id, name string, o *policy.Override,
	edit Edit) (policy.Key, error) {
	panic("todo")
}

// Update changes a key. version is the one that the edit was based on. If it is no longer
// current, nothing is written, and Update returns the current key with ErrConflict.
func (s *Store) Update(ctx context.Context, id string, version int64, action string, edit Edit,
	change func(*policy.Key)) (policy.Key, error) {
	panic("todo")
}

// Unban lifts a key's ban. It writes nothing for a key that is not banned.
func (s *Store) Unban(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	panic("todo")
}

// Reset writes into the key's record that what was counted up to now does not count.
func (s *Store) Reset(ctx context.Context, id string, edit Edit) (policy.Key, error) { panic("todo") }

// ResetGroup writes that what a group was counted up to now does not count. It fails with
// ErrNotFound for a group without keys.
func (s *Store) ResetGroup(ctx context.Context, name string, edit Edit) error { panic("todo") }

// OverrideGroup gives the keys of a group limits in place of their plans'; nil ends it.
func (s *Store) OverrideGroup(ctx context.Context, name string, o *policy.Override, edit Edit) error {
	panic("todo")
}

// Rotate gives an API key a new secret under the same id. With changes.ErrUnknown the
// secret is returned too.
func (s *Store) Rotate(ctx context.Context, id string, version int64, grace time.Duration,
	edit Edit) (policy.Key, apikey.Secret, error) {
	panic("todo")
}

// ExpireSecret ends the grace of the previous secret.
func (s *Store) ExpireSecret(ctx context.Context, id string, version int64, edit Edit) (policy.Key, error) {
	panic("todo")
}

// Delete removes a key. Its counts expire.
func (s *Store) Delete(ctx context.Context, id string, edit Edit) error { panic("todo") }

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
	Why      error // of change, an *InvalidError, or ErrNotFound
}

// UpdateMany changes up to MaxKeys keys in one change of the log. change gets each current
// key and may alter what Update lets it alter; its error leaves the key as it is.
func (s *Store) UpdateMany(ctx context.Context, ids []string, action string, edit Edit,
	change func(*policy.Key) error) (Many, error) {
	panic("todo")
}

// Undo takes back what a change did, as a new change. Of the policy it takes back only the
// parts that the change touched. What was revoked stays revoked.
func (s *Store) Undo(ctx context.Context, number uint64, edit Edit) error { panic("todo") }
