// Package app holds the use cases of the admin function that pages and API share:
// changing keys and policies, finding keys with their state, taking back an edit,
// reserving and settling a cost. It knows no HTTP. Package dashboard and package api call
// it and never registry, so whatever they change is changed here; it calls registry and
// enforce.
package app

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/usage"
)

// Registry is the keys and the policies as pages and API have them: they read what Reader
// has, and change what its own methods change. It is safe for concurrent use.
type Registry struct {
	Reader
	store *registry.Store
	calls *usage.Reader
}

// NewRegistry returns the use cases of a store, and of what was recorded about its keys.
func NewRegistry(store *registry.Store, calls *usage.Reader) *Registry {
	return &Registry{Reader: store, store: store, calls: calls}
}

// Reader is the part of registry.Store that changes nothing, documented there.
type Reader interface {
	Get(ctx context.Context, id string) (policy.Key, error)
	Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error)
	Set(ctx context.Context) (*policy.Set, error)
	Synced(ctx context.Context, set *policy.Set) (bool, error)
	PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error)
	Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error)
	Authenticate(ctx context.Context, set *policy.Set, text string) (policy.Key, error)
	Audit() *audit.Log
	TokenCaller(issuer, name string) string
	AddressCaller(prefix netip.Prefix) string
}

// Edit says who changes something and why.
type Edit = registry.Edit

// NewEdit is a change that the caller of a request makes, for a reason as it was typed.
func NewEdit(ctx context.Context, reason string) Edit {
	return Edit{By: ActorOf(ctx), Reason: strings.TrimSpace(reason)}
}

// ActorOf names the caller of a request as the audit does.
func ActorOf(ctx context.Context) audit.Actor {
	actor := auth.From(ctx)
	return audit.Actor{Kind: string(actor.Kind), Name: actor.String()}
}

// TakesForeign reports whether Create takes values that another system made.
func (r *Registry) TakesForeign() bool { return r.store.ForeignKeys }

// Create stores a new API key and returns it with its secret, which cannot be had again.
// When its given value is a key's already, that key's id comes with policy.ErrConflict.
// Bad input is a *policy.InvalidError.
func (r *Registry) Create(ctx context.Context, n policy.NewKey, e Edit) (policy.Key, apikey.Secret, error) {
	n.Name, n.Env = strings.TrimSpace(n.Name), strings.TrimSpace(n.Env)
	return r.store.Create(ctx, n, e)
}

// Adopt stores a record for a caller that others vouch for. It fails with
// policy.ErrConflict when there is one.
func (r *Registry) Adopt(
	ctx context.Context, kind policy.Kind, id, name string, o *policy.Override, e Edit,
) (policy.Key, error) {
	return r.store.Adopt(ctx, kind, id, strings.TrimSpace(name), o, e)
}

// Rotate gives a key as it was in a version a new secret; the old one is good for grace
// more. When another change came first, it returns the key as that left it, with
// policy.ErrConflict.
func (r *Registry) Rotate(
	ctx context.Context, id string, version int64, grace time.Duration, e Edit,
) (policy.Key, apikey.Secret, error) {
	return r.store.Rotate(ctx, id, version, grace, e)
}

// Base is the version of a key that a change is made to.
type Base struct {
	Version int64
	Newer   bool // a newer version is changed likewise
}

// Tries is how often a change is tried while others change the same key too.
const Tries = 5

// Change changes a key and returns it as it is then; a deleted one has no ID. When
// another change came first, it returns the key as that left it, with policy.ErrConflict.
func (r *Registry) Change(
	ctx context.Context, id string, base Base, c KeyChange, e Edit,
) (policy.Key, error) {
	for try := 1; ; try++ {
		saved, err := c.make(ctx, r.store, id, base.Version, e)
		if !errors.Is(err, policy.ErrConflict) {
			return saved, err
		}
		if saved.ID == "" {
			var gone error
			if saved, gone = r.Get(ctx, id); gone != nil {
				return saved, gone
			}
		}
		if !base.Newer || try == Tries {
			return saved, err
		}
		base.Version = saved.Version
	}
}

// SavePolicy puts a set in place of the one that has a version, and returns it as it is
// stored. When that version is no longer current, it returns the one that is, with
// policy.ErrConflict. It fails with policy.ErrUnfinished when SyncPolicy has to finish
// it.
func (r *Registry) SavePolicy(
	ctx context.Context, next policy.Set, version int64, e Edit,
) (*policy.Set, error) {
	next.Version = version
	return r.store.SaveSet(ctx, next, e)
}

// SyncPolicy finishes a save that was interrupted.
func (r *Registry) SyncPolicy(ctx context.Context) error { return r.store.Sync(ctx) }
