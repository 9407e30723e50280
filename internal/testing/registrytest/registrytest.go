// Package registrytest edits policies and keys as the dashboard does, for tests of the
// packages that obey those edits.
package registrytest

import (
	"context"
	"errors"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
)

// Edit is an edit of the tests.
var Edit = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}

// New returns a registry on a connected client, with a log of its own in a folder of the
// test. Valkey must be empty.
func New(t testing.TB, client valkey.Client, pepper apikey.Pepper) *registry.Store {
	t.Helper()
	return Open(t, client, t.TempDir(), pepper)
}

// Open returns a registry on a connected client and the log in a folder, and starts it.
func Open(t testing.TB, client valkey.Client, folder string, pepper apikey.Pepper) *registry.Store {
	t.Helper()
	log, err := objects.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := registry.New(client, log, pepper)
	if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s
}

// policies is a registry.Store, or what wraps one.
type policies interface {
	Set(ctx context.Context) (*policy.Set, error)
	SaveSet(ctx context.Context, next policy.Set, edit registry.Edit) (*policy.Set, error)
}

// Save changes the policy set and saves it, also in a clean-up.
func Save(t testing.TB, s policies, edit registry.Edit, change func(*policy.Set)) *policy.Set {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	set, err := s.Set(ctx)
	if err != nil {
		t.Fatal(err)
	}
	change(set)
	saved, err := s.SaveSet(ctx, *set, edit)
	if failure(err) != nil {
		t.Fatal(err)
	}
	return saved
}

// failure returns the error of an edit. Replicas that do not confirm an edit in time are
// none.
func failure(err error) error {
	if errors.Is(err, registry.ErrNotReplicated) {
		return nil
	}
	return err
}

// Put saves a policy set in place of the current one.
func Put(t testing.TB, s policies, edit registry.Edit, set policy.Set) *policy.Set {
	t.Helper()
	return Save(t, s, edit, func(current *policy.Set) {
		set.Version = current.Version
		*current = set
	})
}

// Limits parses limits in words, such as "10 per minute, on search". It panics if one is
// wrong.
func Limits(words ...string) []limits.Limit {
	list := make([]limits.Limit, len(words))
	for i, text := range words {
		var err error
		if list[i], err = limits.Parse(text); err != nil {
			panic(err)
		}
	}
	return list
}

// Plan returns a change for Save that gives a plan these limits. It adds a plan that does
// not exist.
func Plan(name string, list ...limits.Limit) func(*policy.Set) {
	return func(s *policy.Set) {
		for i := range s.Plans {
			if s.Plans[i].Name == name {
				s.Plans[i].Limits = list
				return
			}
		}
		s.Plans = append(s.Plans, policy.Plan{Name: name, Limits: list})
	}
}

// Route returns a route of calls that cost something: 0 for nothing in every unit. It
// panics at a mistake in a pattern.
func Route(name string, cost int64, patterns ...string) limits.Route {
	r := limits.Route{Name: name, Cost: limits.Costs{Free: cost == 0}}
	if cost > 0 {
		r.Cost.Units = map[string]int64{limits.Cost: cost}
	}
	for _, text := range patterns {
		p, err := route.Parse(text)
		if err != nil {
			panic(err)
		}
		r.Match = append(r.Match, p)
	}
	return r
}

// Create creates a key.
func Create(t testing.TB, s *registry.Store, edit registry.Edit, n policy.NewKey) (policy.Key,
	apikey.Secret) {
	t.Helper()
	k, secret, err := s.Create(t.Context(), n, edit)
	if failure(err) != nil {
		t.Fatal(err)
	}
	return k, secret
}

// Override replaces the limits of the key's plan until the override ends. A nil override
// restores them.
func Override(ctx context.Context, s *registry.Store, id string, o *policy.Override,
	edit registry.Edit) (policy.Key, error) {
	action := registry.KeyOverride
	if o == nil {
		action = registry.KeyOverrideEnd
	}
	return Update(ctx, s, id, action, edit, func(k *policy.Key) { k.Override = o })
}

// Revoke makes the key unknown to every check that starts after it returns.
func Revoke(ctx context.Context, s *registry.Store, id string, edit registry.Edit) (policy.Key, error) {
	return Update(ctx, s, id, registry.KeyRevoke, edit, func(k *policy.Key) { k.Status = policy.Revoked })
}

// Update changes the current version of a key.
func Update(ctx context.Context, s *registry.Store, id, action string, edit registry.Edit,
	change func(*policy.Key)) (policy.Key, error) {
	k, err := s.Get(ctx, id)
	if err != nil {
		return k, err
	}
	k, err = s.Update(ctx, id, k.Version, action, edit, change)
	return k, failure(err)
}
