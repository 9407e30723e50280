// Package app holds the use cases of the admin function that its pages and its API share:
// changing keys and policies, one or many, finding keys and their states, undoing changes,
// settling costs. Packages dashboard and api import it. It alone has the registry's store,
// so every change is made here. It must not know pages.
package app

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/list"
	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
)

// PolicyRecord is the subject of changes of the policies.
const PolicyRecord = changes.Policy

// Registry gives pages and API access to the keys and the policies: Reader reads them,
// the other methods change them. It is safe for concurrent use.
type Registry struct {
	Reader
	store   *registry.Store
	calls   *records.Reader
	checker *enforce.Checker
}

// NewRegistry returns a Registry of a store, of the recorded calls of its keys, and of a
// checker that looks at their limits.
func NewRegistry(store *registry.Store, calls *records.Reader, checker *enforce.Checker) *Registry {
	return &Registry{Reader: store, store: store, calls: calls, checker: checker}
}

// Usage returns, for each key in order, the states of its limits of each caller and of each
// group, as a next call of cost 1 finds them. It takes nothing.
func (r *Registry) Usage(ctx context.Context, set *policy.Set, keys []policy.Key) (
	[][]enforce.LimitState, error) {
	return r.checker.Usage(ctx, set, keys)
}

// Reader has the methods of registry.Store that change nothing. They are documented
// there.
type Reader interface {
	Get(ctx context.Context, id string) (policy.Key, error)
	Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error)
	Set(ctx context.Context) (*policy.Set, error)
	PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error)
	Authenticate(ctx context.Context, set *policy.Set, text string) (policy.Key, error)
	Audit(ctx context.Context, q registry.AuditQuery) (registry.AuditPage, error)
	LogStatus(ctx context.Context) registry.LogStatus
	TokenCaller(issuer, name string) string
	AddressCaller(prefix netip.Prefix) string
}

// Edit is the author of a change and the reason.
type Edit = registry.Edit

// Repeat is a request that its caller may send again.
type Repeat = registry.Repeat

// NewEdit returns an edit by the caller of a request. It trims the reason.
func NewEdit(ctx context.Context, reason string) Edit {
	return Edit{By: ActorOf(ctx), Reason: strings.TrimSpace(reason)}
}

// ActorOf returns the caller of a request as the audit names the caller.
func ActorOf(ctx context.Context) registry.Actor {
	actor := auth.From(ctx)
	return registry.Actor{Kind: string(actor.Kind), Name: actor.String()}
}

// AuditEntry returns a change with the states of its records, or policy.ErrNotFound.
func (r *Registry) AuditEntry(ctx context.Context, number uint64) (registry.AuditEntry, error) {
	return r.store.Change(ctx, number)
}

// TakesForeign reports whether Create accepts key values that another system made.
func (r *Registry) TakesForeign() bool { return r.store.ForeignKeys }

// Create stores a new API key and returns it with its secret, which is not stored. If a
// given value belongs to another key, it returns that key's id and policy.ErrConflict.
// Bad input is a *policy.InvalidError.
func (r *Registry) Create(ctx context.Context, n policy.NewKey, e Edit) (policy.Key, apikey.Secret, error) {
	n.Name, n.Env = strings.TrimSpace(n.Name), strings.TrimSpace(n.Env)
	k, secret, err := r.store.Create(ctx, n, e)
	return k, secret, NotedSecret(ctx, err)
}

// CreateMany creates up to registry.MaxKeys keys in one change, as Create does.
func (r *Registry) CreateMany(ctx context.Context, keys []policy.NewKey, e Edit) ([]registry.Created, error) {
	created, err := r.store.CreateMany(ctx, keys, e)
	return created, NotedSecret(ctx, err)
}

// Adopt stores a record for a caller without an API key: a token's subject or an address.
// It returns policy.ErrConflict if the caller has a record.
func (r *Registry) Adopt(ctx context.Context, kind policy.Kind, id, name string, o *policy.Override,
	e Edit) (policy.Key, error) {
	k, err := r.store.Adopt(ctx, kind, id, strings.TrimSpace(name), o, e)
	return k, Noted(ctx, err)
}

// Rotate gives a version of a key a new secret; the old secret stays valid for grace. If
// another change came first, it returns the key as that change left it, and
// policy.ErrConflict.
func (r *Registry) Rotate(ctx context.Context, id string, version int64, grace time.Duration,
	e Edit) (policy.Key, apikey.Secret, error) {
	k, secret, err := r.store.Rotate(ctx, id, version, grace, e)
	return k, secret, NotedSecret(ctx, err)
}

// Rotated returns what an earlier request, the same as e.Repeat, left of a key. It fails with
// policy.ErrNotFound without one.
func (r *Registry) Rotated(ctx context.Context, id string, e Edit) (policy.Key, apikey.Secret, error) {
	k, secret, err := r.store.Rotated(ctx, id, e)
	return k, secret, Noted(ctx, err)
}

// SavePolicy replaces a version of the policy set and returns the stored set. If another
// change of the same part came first, it returns the current set and policy.ErrConflict.
func (r *Registry) SavePolicy(ctx context.Context, next policy.Set, version int64, e Edit) (*policy.Set,
	error) {
	next.Version = version
	saved, err := r.store.SaveSet(ctx, next, e)
	return saved, Noted(ctx, err)
}

// Follows is registry.Store.Follows.
func (r *Registry) Follows(ctx context.Context, version int64, current *policy.Set,
	edit func(*policy.Set) bool) (bool, error) {
	return r.store.Follows(ctx, version, current, edit)
}

// Group is the current state of a group of keys.
type Group struct {
	Name     string
	Keys     int64
	Override *policy.Override // of its keys; nil for none, may be past
	Billing  limits.Billing   // when its billing months begin
	Now      time.Time        // this function's clock
	// Limits are those of each group, of every plan and of the policy.
	Limits []enforce.LimitState
}

// Group returns a group, or policy.ErrNotFound if it has no keys.
func (r *Registry) Group(ctx context.Context, set *policy.Set, name string) (Group, error) {
	n, err := r.store.Count(ctx, registry.Query{Group: name})
	switch {
	case err != nil:
		return Group{}, err
	case policy.GroupProblem(name) != "" || n == 0:
		return Group{}, policy.ErrNotFound
	}
	g := Group{Name: name, Keys: n, Billing: set.GroupBilling[name], Now: time.Now()}
	if o, found := set.GroupOverrides[name]; found {
		g.Override = &o
	}
	g.Limits, err = r.checker.GroupUsage(ctx, set, name, set.Plans)
	return g, err
}

// GroupQuery selects groups of keys.
type GroupQuery struct {
	Prefix string `query:"prefix" maxLength:"64" doc:"Only names with this prefix; case is ignored"`
	list.Paging
}

// ListedGroup is a group in a list.
type ListedGroup struct {
	registry.Group

	Override *policy.Override `json:"override,omitempty" doc:"Limits of each key of the group that has no override itself"`
}

// Groups returns the groups that have keys, in the order of their names.
func (r *Registry) Groups(ctx context.Context, q *GroupQuery) (list.Page[ListedGroup], error) {
	set, err := r.Set(ctx)
	if err != nil {
		return list.Page[ListedGroup]{}, err
	}
	found, err := r.store.Groups(ctx, q.Prefix, q.After, q.Count+1)
	next := ""
	if len(found) > q.Count {
		found = found[:q.Count]
		next = found[q.Count-1].Name
	}
	return list.Of(found, next, func(g *registry.Group) ListedGroup {
		if o, has := set.GroupOverrides[g.Name]; has {
			return ListedGroup{*g, &o}
		}
		return ListedGroup{*g, nil}
	}), err
}

// ResetGroup sets the counts of a group to zero, not those of its keys. It returns
// policy.ErrNotFound if the group has no keys.
func (r *Registry) ResetGroup(ctx context.Context, name string, e Edit) error {
	return Noted(ctx, r.store.ResetGroup(ctx, name, e))
}

// BillGroup says when the billing months of a group begin, by registry.Store.BillGroup, and
// returns the stored set.
func (r *Registry) BillGroup(ctx context.Context, name string, b limits.Billing, e Edit) (*policy.Set,
	error) {
	saved, err := r.store.BillGroup(ctx, name, b, e)
	return saved, Noted(ctx, err)
}

// OverrideGroup gives the keys of a group an override, or ends it if o is nil, by
// registry.Store.OverrideGroup, and returns the stored set.
func (r *Registry) OverrideGroup(ctx context.Context, name string, o *policy.Override, e Edit) (*policy.Set,
	error) {
	saved, err := r.store.OverrideGroup(ctx, name, o, e)
	return saved, Noted(ctx, err)
}
