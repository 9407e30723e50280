package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"tidegate/internal/registry"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// A check finds a created key and takes from its plan's limits. Counts expire, and
// configuration does not.
func TestCheckOfACreatedKey(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", limits.Limit{Requests: 2, Window: time.Minute},
			limits.Limit{Requests: 5, Window: time.Hour, Algorithm: limiter.Counter})
		k, secret := w.create(t, "Zoë <script>", "pro")
		last := w.expect(t, call(secret), "yyn")
		if last.ID != k.ID || last.Name != k.Name || last.Plan != "pro" || last.Source != "plan" ||
			last.KeyVersion != k.Version || last.SetVersion != k.Version-1 {
			t.Errorf("got %s, want key %+v of plan pro", describe(last), k)
		}
		if used := w.used(t, k); !slices.Equal(used, []int64{2, 2}) {
			t.Errorf("usage: got %v, want 2 of each limit", used)
		}
		for _, name := range []string{keyspace.BucketOf(k.ID).Records(),
			keyspace.BucketOf(k.ID).Lists()} {
			if ttl, _ := w.client.Do(t.Context(),
				w.client.B().Pttl().Key(name).Build()).AsInt64(); ttl != -1 {
				t.Errorf("%s: got a time to live of %d ms, want none for configuration", name, ttl)
			}
		}
	})
}

// A check returns the same for a key that is revoked, expired, unknown or has another
// secret, so that callers cannot distinguish them.
func TestUnknownKeysAreIndistinguishable(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		k, revoked := w.create(t, "revoked", "free")
		must(registrytest.Revoke(t.Context(), w.Store, k.ID, byTest))
		k, expired := w.create(t, "expired", "free")
		must(w.Update(t.Context(), k.ID, k.Version, "key.expire", byTest, func(k *policy.Key) {
			k.Expires = time.Now().Add(-time.Second)
		}))
		never := must(apikey.Generate("test"))
		_, known := w.create(t, "known", "free")
		foreign := enforce.NewChecker(w.client, apikey.Pepper(strings.Repeat("q", 32)))
		for name, try := range map[string]struct {
			checker *enforce.Checker
			call    enforce.Call
		}{
			"revoked":      {w.checker, call(revoked)},
			"expired":      {w.checker, call(expired)},
			"never seen":   {w.checker, call(never)},
			"wrong secret": {foreign, call(known)},
			"no secret at all": {w.checker,
				enforce.Call{Kind: policy.Token, Subject: known.ID(), Plan: "free"}},
			"address like a key": {w.checker,
				enforce.Call{Kind: policy.Token, Subject: revoked.ID(), Plan: "free"}},
		} {
			c, err := try.checker.Check(t.Context(), try.call)
			if !errors.Is(err, policy.ErrUnknownKey) || !reflect.DeepEqual(c, enforce.Result{}) {
				t.Errorf("%s: got %+v, %v; want only ErrUnknownKey", name, c, err)
			}
		}
	})
}

// An edit acts on the next check and keeps the counts: a higher limit allows more at
// once, and a lower one does not reset them.
func TestEditsActOnTheNextCheck(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(2)...)
		k, secret := w.create(t, "edited", "free")
		for i, step := range []struct {
			limits    []limits.Limit
			allowed   bool
			remaining int64
		}{
			{perMinute(2), true, 1},
			{perMinute(2), true, 0},
			{perMinute(3), true, 0},
			{perMinute(1), false, 0},
			{perMinute(5), true, 1},
			{[]limits.Limit{{Requests: 5, Window: time.Hour}}, true, 0},
		} {
			if i%2 == 0 {
				k = must(registrytest.Override(t.Context(), w.Store, k.ID, nil, byTest))
				w.plan(t, "free", step.limits...)
			} else {
				k = must(registrytest.Override(t.Context(), w.Store, k.ID,
					&policy.Override{Limits: step.limits, Reason: "a test"}, byTest))
			}
			c := w.check(t, call(secret))
			if c.Allowed != step.allowed || c.Limits[0].Remaining != step.remaining ||
				c.KeyVersion != k.Version {
				t.Errorf("after the edit to %v: got %s, want %+v at version %d", step.limits, describe(c),
					step, k.Version)
			}
		}
	})
}

// A key whose override is below the cost of a route, which a save raised since, can be
// banned, reset, rotated and revoked. Another such override is refused.
func TestEditsOfAnOverrideBelowACost(t *testing.T) {
	w := open(t, valkeytest.Embedded(t))
	w.plan(t, "free", perMinute(10)...)
	k, _ := w.create(t, "leaked", "free")
	k = must(registrytest.Override(t.Context(), w.Store, k.ID,
		&policy.Override{Limits: perMinute(5), Reason: "less"}, byTest))
	w.save(t, func(s *policy.Set) {
		s.Routes = []limits.Route{routeOf("export", "/export", 8)}
	})
	_, err := registrytest.Override(t.Context(), w.Store, k.ID,
		&policy.Override{Limits: perMinute(6), Reason: "less"}, byTest)
	wantInvalid(t, err, "override.limits[0].requests")
	k = must(w.Update(t.Context(), k.ID, k.Version, registry.KeyBan, byTest, func(k *policy.Key) {
		k.Banned = time.Now().Add(time.Hour)
	}))
	k = must(w.Unban(t.Context(), k.ID, k.Version, byTest))
	k = must(w.Reset(t.Context(), k.ID, byTest))
	if k, _, err = w.Rotate(t.Context(), k.ID, k.Version, 0, byTest); err != nil {
		t.Fatal(err)
	}
	if k = must(registrytest.Revoke(t.Context(), w.Store, k.ID, byTest)); k.Override == nil {
		t.Error("the override was lost")
	}
}

// List returns pages in the order of names, filtered by prefix, plan or list, and follows
// edits.
func TestListPagesByName(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		w.plan(t, "pro", perMinute(2)...)
		for _, name := range []string{"delta", "Alpha", "alpine", "beta", "Alp"} {
			w.create(t, name, "free")
		}
		k, _ := w.create(t, "zeta", "pro")
		set := must(w.Set(t.Context()))
		var names []string
		q := registry.Query{Count: 2, Plan: 1}
		for {
			page := must(w.List(t.Context(), set, q))
			for _, k := range page.Keys {
				names = append(names, k.Name+"/"+k.Plan)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if got := strings.Join(names, " "); got != "Alp/free Alpha/free alpine/free beta/free delta/free" {
			t.Errorf("pages: got %s", got)
		}
		if page := must(w.List(t.Context(), set, registry.Query{Prefix: "ALP"})); len(page.Keys) != 3 ||
			page.Next != "" {
			t.Errorf("prefix ALP: got %+v, want 3 keys", page)
		}
		k = must(registrytest.Override(t.Context(), w.Store, k.ID,
			&policy.Override{Reason: "trusted"}, byTest))
		if keys := w.keys(t, registry.Query{List: registry.Overridden}); len(keys) != 1 ||
			keys[0].ID != k.ID {
			t.Errorf("overridden: got %+v, want zeta", keys)
		}
		must(w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest, func(k *policy.Key) {
			k.Plan, k.Name, k.Override = "free", "omega", nil
		}))
		counts := must(w.PlanCounts(t.Context(), set))
		if counts[1] != 6 || counts[2] != 0 {
			t.Errorf("got counts %v, want 6 of plan 1 and none of plan 2", counts)
		}
		if page := must(w.List(t.Context(), set, registry.Query{Prefix: "z"})); len(page.Keys) != 0 {
			t.Errorf("old name: got %+v, want no keys", page)
		}
		var invalid *policy.InvalidError
		if _, err := w.List(t.Context(), set, registry.Query{After: "!"}); !errors.As(err, &invalid) {
			t.Errorf("bad position: got %v, want an InvalidError", err)
		}
	})
}

// A deleted key is unknown to checks, in no list, and cannot be deleted again.
func TestDelete(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		k, secret := w.create(t, "gone", "free")
		w.expect(t, call(secret), "y")
		if err := w.Delete(t.Context(), k.ID, byTest); err != nil {
			t.Fatal(err)
		}
		if _, err := w.checker.Check(t.Context(), call(secret)); !errors.Is(err, policy.ErrUnknownKey) {
			t.Errorf("check: got %v, want ErrUnknownKey", err)
		}
		if keys := w.keys(t, registry.Query{}); len(keys) != 0 {
			t.Errorf("list: got %+v, want no keys", keys)
		}
		if err := w.Delete(t.Context(), k.ID, byTest); !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("second delete: got %v, want ErrNotFound", err)
		}
	})
}

// A ban denies calls until its end, without another edit.
func TestBanExpires(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		k, secret := w.create(t, "banned", "free")
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		k = must(w.Update(t.Context(), k.ID, k.Version, "key.ban", byTest, func(k *policy.Key) {
			k.Banned = until
		}))
		c := w.check(t, call(secret))
		if c.Allowed || !c.BannedUntil.Equal(until) || c.Name != "banned" || c.Plan != "free" ||
			!c.Limits[0].Unread {
			t.Errorf("got %s, want a ban until %s", describe(c), until)
		}
		must(w.Update(t.Context(), k.ID, k.Version, "key.unban", byTest, func(k *policy.Key) {
			k.Banned = time.Now().Add(-time.Second)
		}))
		w.expect(t, call(secret), "y")
	})
}

// An override applies until its end. Then the plan's limits apply, without another edit.
func TestOverrideExpires(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(1)...)
		k, secret := w.create(t, "overridden", "free")
		k = must(
			registrytest.Override(t.Context(), w.Store, k.ID, &policy.Override{
				Until: time.Now().Add(time.Hour), Reason: "launch day"}, byTest),
		)
		if c := w.expect(t, call(secret), "yyy"); c.Source != "override" || !c.Limits[0].CountsOnly {
			t.Errorf("got %s, want an override that lifts the plan's limit", describe(c))
		}
		must(
			registrytest.Override(t.Context(), w.Store, k.ID, &policy.Override{
				Until: time.Now().Add(-time.Millisecond), Reason: "past"}, byTest),
		)
		// The plan's limit has counted the calls of the launch day.
		if c := w.expect(t, call(secret), "n"); c.Source != "plan" || c.Limits[0].Owed != 2 {
			t.Errorf("got %s, want the plan, which counts 2 calls above its limit", describe(c))
		}
	})
}

// Invalid input is an error that names the field, and is not stored.
func TestInvalidInput(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(1)...)
	stored := func() int64 { return must(w.client.Do(t.Context(), w.client.B().Dbsize().Build()).AsInt64()) }
	before := stored()
	good := policy.NewKey{Name: "name", Env: "test", Plan: "free"}
	for field, change := range map[string]func(*policy.NewKey){
		"name":    func(n *policy.NewKey) { n.Name = strings.Repeat("x", 1<<20) },
		"env":     func(n *policy.NewKey) { n.Env = "Prod" },
		"plan":    func(n *policy.NewKey) { n.Plan = "\u202e" },
		"tags[1]": func(n *policy.NewKey) { n.Tags = []string{"fine", "\x00"} },
		"expires": func(n *policy.NewKey) { n.Expires = time.Unix(1, 0) },
	} {
		n := good
		change(&n)
		_, _, err := w.Create(t.Context(), n, byTest)
		wantInvalid(t, err, field)
	}
	if got := stored(); got != before {
		t.Errorf("got %d stored keys, want %d as before", got, before)
	}
	k, _ := w.create(t, "valid", "free")
	before = stored()
	for field, o := range map[string]policy.Override{
		"override.limits[0].requests": {Limits: perMinute(0), Reason: "zero"},
		"override.reason":             {Limits: perMinute(1)},
	} {
		_, err := registrytest.Override(t.Context(), w.Store, k.ID, &o, byTest)
		wantInvalid(t, err, field)
	}
	if got := stored(); got != before {
		t.Errorf("got %d stored keys, want %d as before", got, before)
	}
}

// Costs and limits out of range, and limits below the cost of a call, are refused before
// anything is stored.
func TestCostsAndLimitsOutOfRange(t *testing.T) {
	w := open(t, valkeytest.Embedded(t))
	w.plan(t, "free", perMinute(10)...)
	for field, change := range map[string]func(*policy.Set){
		"routes[0].cost": func(s *policy.Set) { s.Routes = orders(-1) },
		"plans[0].limits[0].requests": func(s *policy.Set) {
			s.Routes, s.Limits[0].Requests = orders(11), 20
		},
		"limits[0].requests": func(s *policy.Set) { s.Limits[0].Requests = 0 },
		"limits[0].each":     func(s *policy.Set) { s.Limits[0].Who = limits.Unsaid },
	} {
		set := must(w.Set(t.Context()))
		set.Routes, set.Limits = orders(1), perMinute(9)
		set.Limits[0].Who = limits.Together
		change(set)
		_, err := w.SaveSet(t.Context(), *set, byTest)
		wantInvalid(t, err, field)
	}
}

func orders(cost int64) []limits.Route { return []limits.Route{routeOf("orders", "/orders", cost)} }

func text(v any) string {
	b, err := json.Marshal(v)
	return fmt.Sprint(string(b), err)
}
