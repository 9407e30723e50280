package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/limits"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// another returns the registry of another admin function.
func (w *world) another(t *testing.T) *registry.Store {
	t.Helper()
	return registrytest.Open(t, w.client, w.folder, testPepper)
}

// Two admins: a plan is never removed while a key of it is made.
func TestPlanIsRemovedWhileKeysAreMade(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	other := w.another(t)
	removed, made := 0, 0
	for round := range 12 {
		name := fmt.Sprint("plan ", round)
		w.plan(t, name, perMinute(1)...)
		without := must(w.Set(t.Context()))
		without.Plans = slices.DeleteFunc(without.Plans, func(p policy.Plan) bool { return p.Name == name })
		var wait sync.WaitGroup
		var k policy.Key
		var errCreate, errSave error
		wait.Go(func() {
			k, _, errCreate = other.Create(t.Context(),
				policy.NewKey{Name: "key", Env: "test", Plan: name}, byTest)
		})
		wait.Go(func() { _, errSave = w.SaveSet(t.Context(), *without, byTest) })
		wait.Wait()
		_, exists := must(w.Set(t.Context())).Plan(name)
		switch {
		case errCreate == nil && errSave == nil:
			t.Errorf("round %d: the plan of %s is removed", round, k.ID)
		case errCreate == nil:
			wantInvalid(t, errSave, "plans")
			made++
		case errSave == nil:
			wantInvalid(t, errCreate, "plan")
			removed++
		}
		if exists != (errCreate == nil) {
			t.Errorf("round %d: the plan exists: %t, the key: %v", round, exists, errCreate)
		}
	}
	t.Logf("%d plans were removed, %d got a key", removed, made)
}

// Edits of different parts of the policy meet. Edits of one part conflict, and the later
// one gets the current set. New plans of two admins get different numbers.
func TestSavesMeet(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	w.plan(t, "pro", perMinute(2)...)
	w.save(t, func(s *policy.Set) {
		s.Routes = []limits.Route{routeOf("search", "/search", 1)}
		s.Limits = registrytest.Limits("50 per minute, each caller", "60 per hour, each caller")
	})
	old := *must(w.Set(t.Context()))
	edit := func(change func(*policy.Set)) error {
		next := old
		next.Plans, next.Routes = slices.Clone(old.Plans), slices.Clone(old.Routes)
		next.Limits = slices.Clone(old.Limits)
		change(&next)
		_, err := w.SaveSet(t.Context(), next, byTest)
		return err
	}
	for name, change := range map[string]func(*policy.Set){
		"a plan":       func(s *policy.Set) { s.Plans[0].Limits = perMinute(7) },
		"another plan": func(s *policy.Set) { s.Plans[1].Limits = perMinute(8) },
		"a route":      func(s *policy.Set) { s.Routes[0].Match = routeOf("", "/find", 1).Match },
		"a limit":      func(s *policy.Set) { s.Limits[1].Requests = 61 },
		"a new plan":   func(s *policy.Set) { s.Plans = append(s.Plans, policy.Plan{Name: "new"}) },
		"another one":  func(s *policy.Set) { s.Plans = append(s.Plans, policy.Plan{Name: "newer"}) },
		"the default":  func(s *policy.Set) { s.TokenPlan = "pro" },
	} {
		if err := edit(change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := must(w.Set(t.Context()))
	numbers := map[int]bool{}
	for _, p := range got.Plans {
		numbers[p.Number] = true
	}
	if len(got.Plans) != 4 || len(numbers) != 4 || got.Plans[0].Limits[0].Requests != 7 ||
		got.Plans[1].Limits[0].Requests != 8 || got.Routes[0].Match[0].Path != "/find" ||
		got.TokenPlan != "pro" || got.Limits[0].Requests != 50 || got.Limits[1].Requests != 61 {
		t.Errorf("got %s, want all edits", text(got))
	}
	for name, change := range map[string]func(*policy.Set){
		"a plan":  func(s *policy.Set) { s.Plans[0].Limits = perMinute(9) },
		"removal": func(s *policy.Set) { s.Plans = s.Plans[1:] },
		"a limit": func(s *policy.Set) { s.Limits[1].Requests = 62 },
	} {
		if err := edit(change); !errors.Is(err, policy.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", name, err)
		}
	}
	if after := must(w.Set(t.Context())); text(after) != text(got) {
		t.Errorf("after conflicts: got %s, want %s", text(after), text(got))
	}
}

// An edit of a key that is based on an old version writes nothing, and returns the current
// key. Of many edits of one version one is made.
func TestConcurrentEditsConflict(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(2)...)
	k, _ := w.create(t, "contended", "free")
	const editors = 8
	results := make(chan error, editors)
	for i := range editors {
		go func() {
			_, err := w.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, byTest, func(k *policy.Key) {
				k.Name = fmt.Sprint("name ", i)
			})
			results <- err
		}()
	}
	saved := 0
	for range editors {
		switch err := <-results; {
		case err == nil:
			saved++
		case !errors.Is(err, policy.ErrConflict):
			t.Error(err)
		}
	}
	page := must(w.Audit(t.Context(), registry.AuditQuery{Subject: k.ID}))
	if saved != 1 || len(page.Entries) != 2 {
		t.Errorf("got %d saved edits and %d entries, want 1 and the creation with it", saved,
			len(page.Entries))
	}
	now := must(w.Get(t.Context(), k.ID))
	current, err := w.Update(t.Context(), k.ID, k.Version, registry.KeyEdit, byTest,
		func(k *policy.Key) { k.Name = "late" })
	if !errors.Is(err, policy.ErrConflict) || text(current) != text(now) {
		t.Errorf("got %+v, %v; want %+v and ErrConflict", current, err, now)
	}
}

// away is a store that can be unavailable.
type away struct {
	objects.Store
	gone atomic.Bool
}

var errAway = errors.New("the store is away")

func (a *away) Create(ctx context.Context, name string, content []byte) error {
	if a.gone.Load() {
		return errAway
	}
	return a.Store.Create(ctx, name, content)
}

func (a *away) Read(ctx context.Context, name string) ([]byte, error) {
	if a.gone.Load() {
		return nil, errAway
	}
	return a.Store.Read(ctx, name)
}

func (a *away) List(ctx context.Context, prefix, after string) ([]objects.Object, error) {
	if a.gone.Load() {
		return nil, errAway
	}
	return a.Store.List(ctx, prefix, after)
}

// While the store is away, a revocation and a ban are in force and other edits are refused.
// When it is back, the minute stores them, and an edit before that cannot pass them.
func TestRevokeWhileTheLogIsAway(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		revoked, first := w.create(t, "revoked", "free")
		banned, second := w.create(t, "banned", "free")
		token := registry.Token{ID: "Token1234567", Name: "machine", Scope: "read", Created: time.Now(),
			Expires: time.Now().Add(time.Hour)}
		if err := w.CreateToken(t.Context(), token, [32]byte{7}, byTest); err != nil {
			t.Fatal(err)
		}
		w.expect(t, call(first), "y")
		w.expect(t, call(second), "y")
		log := &away{Store: must(objects.Open(w.folder))}
		s := registry.New(w.client, log, testPepper)
		log.gone.Store(true)
		k, err := registrytest.Revoke(t.Context(), s, revoked.ID, byTest)
		if !errors.Is(err, registry.ErrNotStored) || k.Status != policy.Revoked {
			t.Errorf("revoke: got %+v, %v; want it revoked and ErrNotStored", k, err)
		}
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		k, err = registrytest.Update(t.Context(), s, banned.ID, registry.KeyBan, byTest,
			func(k *policy.Key) { k.Banned = until })
		if !errors.Is(err, registry.ErrNotStored) || !k.Banned.Equal(until) {
			t.Errorf("ban: got %+v, %v; want it banned and ErrNotStored", k, err)
		}
		if err := s.RevokeToken(t.Context(), token.ID, byTest); !errors.Is(err, registry.ErrNotStored) {
			t.Errorf("token: got %v, want ErrNotStored", err)
		}
		refused := func(when string) {
			t.Helper()
			_, err := w.checker.Check(t.Context(), call(first))
			if !errors.Is(err, policy.ErrUnknownKey) {
				t.Errorf("%s: a call of the revoked key: got %v, want ErrUnknownKey", when, err)
			}
			if c := w.expect(t, call(second), "n"); !c.BannedUntil.Equal(until) {
				t.Errorf("%s: a call of the banned key: got %s", when, describe(c))
			}
			if got := must(s.Get(t.Context(), revoked.ID)); got.Status != policy.Revoked {
				t.Errorf("%s: got %+v, want it revoked", when, got)
			}
			if _, _, err := s.FindToken(t.Context(), token.ID); !errors.Is(err, policy.ErrNotFound) {
				t.Errorf("%s: the token: got %v, want ErrNotFound", when, err)
			}
		}
		refused("while it is away")
		status := s.LogStatus(t.Context())
		if status.Marks != 3 || !errors.Is(status.Problem, changes.ErrStore) {
			t.Errorf("got %+v, want three marks and ErrStore", status)
		}
		if _, err := s.Reset(t.Context(), banned.ID, byTest); !errors.Is(err, changes.ErrStore) {
			t.Errorf("another edit: got %v, want ErrStore", err)
		}
		log.gone.Store(false)
		if err := s.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused("when it is back")
		status = s.LogStatus(t.Context())
		if status.Marks > 0 || status.Behind > 0 || status.Problem != nil {
			t.Errorf("got %+v, want no marks", status)
		}
		page := must(s.Audit(t.Context(), registry.AuditQuery{Subject: revoked.ID}))
		if e := page.Entries[0]; e.Action != registry.KeyRevoke || e.By != byTest.By ||
			e.Reason != byTest.Reason {
			t.Errorf("audit: got %+v, want the revocation", e)
		}
		must(registrytest.Update(t.Context(), s, revoked.ID, registry.KeyUnrevoke, byTest,
			func(k *policy.Key) { k.Status = policy.Active }))
		w.expect(t, call(first), "y")
	})
}

// A change of many keys is one change. Keys that cannot be changed stay as they are.
func TestUpdateMany(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		w.plan(t, "pro", perMinute(2)...)
		var ids []string
		for i := range 5 {
			k, _ := w.create(t, fmt.Sprint("key ", i), []string{"free", "free", "free", "pro", "free"}[i])
			ids = append(ids, k.ID)
		}
		before := must(w.Log().Verify(t.Context()))
		stop := errors.New("not this one")
		many, err := w.UpdateMany(t.Context(), append(ids, "nobody"), registry.KeyPlan, byTest,
			func(k *policy.Key) error {
				if k.Plan = "pro"; k.Name == "key 4" {
					return stop
				}
				k.Group = "acme"
				if k.ID == ids[3] {
					k.Group = ""
				}
				return nil
			})
		if err != nil || len(many.Changed) != 3 || !slices.Equal(many.Same, ids[3:4]) ||
			len(many.Failed) != 2 || many.Change != before+1 ||
			must(w.Log().Verify(t.Context())) != before+1 {
			t.Fatalf("got %+v, %v; want three keys in one change", many, err)
		}
		for _, f := range many.Failed {
			if f.ID == ids[4] && (!errors.Is(f.Why, stop) || f.Name != "key 4") ||
				f.ID == "nobody" && !errors.Is(f.Why, policy.ErrNotFound) {
				t.Errorf("got %+v", f)
			}
		}
		if got := w.groups(t, ""); got != "acme:3" {
			t.Errorf("got groups %s, want acme:3", got)
		}
		entry := must(w.Change(t.Context(), many.Change))
		if entry.Items != 4 || entry.Action != registry.KeyPlan {
			t.Errorf("got %+v, want three keys and their new group", entry)
		}
		if err := w.Undo(t.Context(), many.Change, byTest); err != nil {
			t.Fatal(err)
		}
		counts := must(w.PlanCounts(t.Context(), must(w.Set(t.Context()))))
		if counts[1] != 4 || counts[2] != 1 {
			t.Errorf("after the undo: got %v, want four keys of free", counts)
		}
		if got := w.groups(t, ""); got != "" {
			t.Errorf("after the undo: got groups %s, want none", got)
		}
	})
}

// An undo takes back what a change did and nobody changed since. It gives no rights back
// that a revocation or a ban took, no secret and no token.
func TestUndo(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	w.plan(t, "pro", perMinute(2)...)
	k, first := w.create(t, "key", "free")
	edit := func(action string, change func(*policy.Key)) uint64 {
		t.Helper()
		k = must(registrytest.Update(t.Context(), w.Store, k.ID, action, byTest, change))
		return uint64(k.Version)
	}
	named := edit(registry.KeyEdit, func(k *policy.Key) {
		k.Name, k.Plan, k.Tags, k.Billing = "other", "pro", []string{"a"}, limits.Billing{Day: 15}
	})
	edit(registry.KeyEdit, func(k *policy.Key) { k.Tags = []string{"b"} })
	if err := w.Undo(t.Context(), named, byTest); err != nil {
		t.Fatal(err)
	}
	if k = must(w.Get(t.Context(), k.ID)); k.Name != "key" || k.Plan != "free" || k.Tags[0] != "b" ||
		k.Billing.Day != 0 {
		t.Errorf("got %+v, want the name, the plan and the billing day back, and the later tags", k)
	}
	if err := w.Undo(t.Context(), named, byTest); !errors.Is(err, registry.ErrNoUndo) {
		t.Errorf("again: got %v, want ErrNoUndo", err)
	}
	revoked := edit(registry.KeyRevoke, func(k *policy.Key) { k.Status = policy.Revoked })
	if err := w.Undo(t.Context(), revoked, byTest); !errors.Is(err, registry.ErrNoUndo) {
		t.Errorf("of a revocation: got %v, want ErrNoUndo", err)
	}
	edit(registry.KeyUnrevoke, func(k *policy.Key) { k.Status = policy.Active })
	_, _, err := w.Rotate(t.Context(), k.ID, must(w.Get(t.Context(), k.ID)).Version, 0, byTest)
	if err != nil {
		t.Fatal(err)
	}
	rotated := uint64(must(w.Get(t.Context(), k.ID)).Version)
	if err := w.Undo(t.Context(), rotated, byTest); !errors.Is(err, registry.ErrNoUndo) {
		t.Errorf("of a rotation: got %v, want ErrNoUndo", err)
	}
	if _, err := w.checker.Check(t.Context(), call(first)); !errors.Is(err, policy.ErrUnknownKey) {
		t.Errorf("the first secret: got %v, want ErrUnknownKey", err)
	}
	changed := w.save(t, func(s *policy.Set) { s.Plans[0].Limits = perMinute(5) })
	w.save(t, func(s *policy.Set) { s.Plans[1].Limits = perMinute(6) })
	if err := w.Undo(t.Context(), uint64(changed.Version), byTest); err != nil {
		t.Fatal(err)
	}
	if set := must(w.Set(t.Context())); set.Plans[0].Limits[0].Requests != 1 ||
		set.Plans[1].Limits[0].Requests != 6 {
		t.Errorf("got %s, want one plan back, and the later edit of the other", text(set))
	}
	added := w.save(t, func(s *policy.Set) { s.Plans = append(s.Plans, policy.Plan{Name: "used"}) })
	w.create(t, "its key", "used")
	wantInvalid(t, w.Undo(t.Context(), uint64(added.Version), byTest), "plans")
	if err := w.Undo(t.Context(), 12345, byTest); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("of no change: got %v, want ErrNotFound", err)
	}
}

// The audit shows every change, by filters and by subject, also of a key that was deleted,
// and no hash of a secret.
func TestAudit(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		k, secret := w.create(t, "Audited", "free")
		other, _ := w.create(t, "other", "free")
		for i := range 3 {
			must(registrytest.Update(t.Context(), w.Store, k.ID, registry.KeyEdit, byTest,
				func(k *policy.Key) { k.Tags = []string{fmt.Sprint("tag", i)} }))
		}
		ada := registry.Edit{By: registry.Actor{Kind: "user", Name: "ada: of sales"}, Reason: "left"}
		if err := w.Delete(t.Context(), k.ID, ada); err != nil {
			t.Fatal(err)
		}
		pages := func(q registry.AuditQuery) (actions []string) {
			t.Helper()
			for {
				page := must(w.Audit(t.Context(), q))
				for _, e := range page.Entries {
					actions = append(actions, e.Action)
				}
				if q.Before = page.Next; q.Before == 0 {
					return actions
				}
			}
		}
		edits := []string{"key.delete", "key.edit", "key.edit", "key.edit", "key.create"}
		for name, c := range map[string]struct {
			q    registry.AuditQuery
			want []string
		}{
			"all": {registry.AuditQuery{Count: 3},
				[]string{"key.delete", "key.edit", "key.edit", "key.edit", "key.create", "key.create",
					"policy.save", ""}},
			"the key":     {registry.AuditQuery{Subject: k.ID, Count: 2}, edits},
			"a name":      {registry.AuditQuery{Named: "AUDITED", Count: 2}, edits},
			"an action":   {registry.AuditQuery{Action: "key.create"}, []string{"key.create", "key.create"}},
			"an author":   {registry.AuditQuery{By: ada.By.Name}, []string{"key.delete"}},
			"the policy":  {registry.AuditQuery{Subject: keyspace.PolicyID}, []string{"policy.save", ""}},
			"the other":   {registry.AuditQuery{Subject: other.ID}, []string{"key.create"}},
			"the future":  {registry.AuditQuery{Since: time.Now().Add(time.Hour)}, nil},
			"nobody":      {registry.AuditQuery{Subject: "nobody"}, nil},
			"edits of it": {registry.AuditQuery{Subject: k.ID, Action: "key.edit"}, edits[1:4]},
		} {
			if got := pages(c.q); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
		page := must(w.Audit(t.Context(), registry.AuditQuery{Subject: k.ID}))
		deleted, created := page.Entries[0], page.Entries[4]
		hash := testPepper.Hash(secret)
		if deleted.By != ada.By || deleted.Reason != "left" || len(deleted.Subjects[0].After) > 0 ||
			!strings.Contains(string(deleted.Subjects[0].Before), `"tag2"`) ||
			len(created.Subjects[0].Before) > 0 || created.Subjects[0].Name != "Audited" ||
			!strings.Contains(string(created.Subjects[0].After), `"plan":"free"`) {
			t.Errorf("got %+v and %+v", deleted, created)
		}
		if strings.Contains(text(page), string(hash[:])) || strings.Contains(text(page), secret.Reveal()) {
			t.Error("the audit shows a secret or its hash")
		}
		if _, err := w.Change(t.Context(), 99); !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("no change: got %v, want ErrNotFound", err)
		}
	})
}

// Machine tokens are found until they are revoked, and there are at most MaxTokens.
func TestTokens(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	now := time.Now().UTC().Truncate(time.Second)
	token := func(i int) registry.Token {
		return registry.Token{ID: fmt.Sprintf("token%03d", i), Name: fmt.Sprint("no. ", i), Scope: "read",
			By: "ada", Created: now.Add(time.Duration(i)), Expires: now.Add(time.Hour)}
	}
	for i := range 3 {
		if err := w.CreateToken(t.Context(), token(i), [32]byte{byte(i)}, byTest); err != nil {
			t.Fatal(err)
		}
	}
	found, hash, err := w.FindToken(t.Context(), "token001")
	if err != nil || found != token(1) || hash != [32]byte{1} {
		t.Errorf("got %+v, %v, %v; want %+v", found, hash, err, token(1))
	}
	if err := w.RevokeToken(t.Context(), "token001", byTest); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.FindToken(t.Context(), "token001")
	for name, err := range map[string]error{
		"again": w.RevokeToken(t.Context(), "token001", byTest),
		"find":  err,
		"bad":   w.RevokeToken(t.Context(), "no/id", byTest),
	} {
		if !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
	if all := must(w.ListTokens(t.Context())); !slices.Equal(all, []registry.Token{token(0), token(2)}) {
		t.Errorf("got %+v, want the first and the last", all)
	}
	page := must(w.Audit(t.Context(), registry.AuditQuery{Subject: "token:token001"}))
	if len(page.Entries) != 2 || page.Entries[0].Action != registry.TokenRevoke ||
		page.Entries[0].Subjects[0].Name != "no. 1" {
		t.Errorf("audit: got %+v, want a creation and a revocation", page.Entries)
	}
	if k, err := w.Get(t.Context(), "token:token000"); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("a token as a key: got %+v, %v", k, err)
	}
}

// A record that is damaged never allows a call, and hides no other key. It can be deleted.
func TestDamagedRecords(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(5)...)
		k, secret := w.create(t, "broken", "free")
		good, _ := w.create(t, "good", "free")
		w.expect(t, call(secret), "y")
		hash, field := keyspace.BucketOf(k.ID).Records(), keyspace.RecordField(k.ID)
		whole := must(w.client.Do(t.Context(), w.client.B().Hget().Key(hash).Field(field).Build()).ToString())
		put := func(text string) {
			t.Helper()
			set := w.client.B().Hset().Key(hash).FieldValue().FieldValue(field, text).Build()
			if err := w.client.Do(t.Context(), set).Error(); err != nil {
				t.Fatal(err)
			}
		}
		for n := range whole {
			put(whole[:n])
			if c, err := w.checker.Check(t.Context(), call(secret)); c.Allowed {
				t.Errorf("cut to %d bytes: got %+v, %v; want it not allowed", n, c, err)
			}
		}
		put(whole[:len(whole)-1])
		keys := w.keys(t, registry.Query{})
		if len(keys) != 2 || keys[0].ID != k.ID || keys[0].Status != policy.Unreadable ||
			keys[1].ID != good.ID {
			t.Errorf("list: got %+v, want the unreadable key and the good one", keys)
		}
		if _, err := w.Get(t.Context(), k.ID); !errors.Is(err, policy.ErrUnreadable) {
			t.Errorf("get: got %v, want ErrUnreadable", err)
		}
		if err := w.Delete(t.Context(), k.ID, byTest); err != nil {
			t.Error(err)
		}
		if keys := w.keys(t, registry.Query{}); len(keys) != 1 {
			t.Errorf("after the deletion: got %+v, want one key", keys)
		}
	})
}
