package enforce

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// saveGroupLimits gives every plan limits on groups, and puts new keys into the group
// acme.
func (w *world) saveGroupLimits(t *testing.T) {
	t.Helper()
	w.group = "acme"
	w.save(t, func(s *policy.Set) {
		for i := range s.Plans {
			s.Plans[i].PerGroup = []limiter.Limit{hourly(100)}
		}
	})
}

// moveToGroup moves a key to another group; empty for none.
func (w *world) moveToGroup(t *testing.T, k policy.Key, group string) policy.Key {
	t.Helper()
	k, err := w.Update(t.Context(), k.ID, k.Version, "key.edit", byTest,
		func(k *policy.Key) { k.Group = group })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// groupUsage returns how many calls a plan's limits count for a group.
func (w *world) groupUsage(t *testing.T, group, plan string) int64 {
	t.Helper()
	p, _ := must(w.Set(t.Context())).Plan(plan)
	return must(w.GroupUsage(t.Context(), group, []policy.Plan{p}))[0].Limits[0].Used()
}

// The keys of a group share the group's limits; keys of other groups and of none do not.
// A call that the group's limits deny takes nothing from the key. Each plan has counts of
// its own. An override does not replace the group's limits. They have the plan's mode.
func TestGroups(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.save(t, func(s *policy.Set) {
			s.Plans = []policy.Plan{
				{Name: "free", Limits: perMinute(4), PerGroup: []limiter.Limit{hourly(5)}},
				{Name: "pro", Limits: perMinute(100), PerGroup: []limiter.Limit{hourly(2)}},
			}
		})
		_, alone := w.create(t, "alone", "free")
		w.group = "acme"
		one, first := w.create(t, "one", "free")
		_, second := w.create(t, "two", "free")
		_, other := w.create(t, "three", "pro")
		w.group = "Acme"
		_, namesake := w.create(t, "four", "free")
		w.expect(t, call(first), "yyy")
		if c := w.expect(t, call(second), "yyn"); scopes(c) != "key:2 group:0" || c.Group != "acme" ||
			!c.Repeats {
			t.Errorf("denied by the group: got %s, group %q, Repeats %t, want key:2 group:0, acme, true",
				scopes(c), c.Group, c.Repeats)
		}
		w.expect(t, call(first), "n")
		if c := w.expect(t, call(other), "yyn"); scopes(c) != "key:98 group:0" {
			t.Errorf("another plan: got %s, want key:98 group:0", scopes(c))
		}
		w.expect(t, call(namesake), "yyyyn")
		w.expect(t, call(alone), "yyyyn")
		must(registrytest.Override(t.Context(), w, one.ID, one.Version,
			&policy.Override{Reason: "x"}, byTest))
		w.expect(t, call(first), "nn")
		w.save(t, func(s *policy.Set) { s.Plans[0].Mode = policy.Shadow })
		if c := w.expect(t, call(second), "y"); c.WouldAllow || scopes(c) != "key:1 group:0" {
			t.Errorf("shadow mode: got %s, WouldAllow %t, want key:1 group:0, false", scopes(c), c.WouldAllow)
		}
	})
}

// A key joins, leaves or changes its group while an environment expects it in the former
// one. The limits of the new group apply to its next call. The former group gets back
// exactly what that call took, also if the new group denies it.
func TestRegrouping(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", hourly(100))
		w.saveGroupLimits(t)
		w.save(t, func(s *policy.Set) { s.Plans[0].PerGroup = []limiter.Limit{hourly(3)} })
		w.group = ""
		k, secret := w.create(t, "caller", "free")
		_, neighbour := w.create(t, "neighbour", "free")
		counts := func(when string, want ...int64) {
			t.Helper()
			got := []int64{w.groupUsage(t, "acme", "free"), w.groupUsage(t, "zebra", "free")}
			if !slices.Equal(got, want) {
				t.Errorf("%s: acme and zebra count %d calls, want %d", when, got, want)
			}
		}
		w.expect(t, call(secret), "yy")
		k = w.moveToGroup(t, k, "acme")
		w.expect(t, call(secret), "yy")
		counts("joined", 2, 0)
		k = w.moveToGroup(t, k, "zebra")
		if c := w.expect(t, call(secret), "y"); scopes(c) != "key:95 group:2" {
			t.Errorf("moved: got %s, want key:95 group:2", scopes(c))
		}
		counts("moved", 2, 1)
		k = w.moveToGroup(t, k, "acme")
		w.expect(t, call(secret), "yn")
		k = w.moveToGroup(t, k, "zebra")
		n := must(w.Get(t.Context(), neighbour.ID()))
		w.moveToGroup(t, n, "zebra")
		w.expect(t, call(neighbour), "yyn")
		counts("both are full", 3, 3)
		k = w.moveToGroup(t, k, "")
		w.expect(t, call(secret), "y") // no group is expected, since the last call was denied
		k = w.moveToGroup(t, k, "other")
		w.expect(t, call(secret), "y")
		w.moveToGroup(t, k, "zebra")
		if c := w.expect(t, call(secret), "n"); scopes(c) != "key:92 group:0" {
			t.Errorf("moved into a full group: got %s, want key:92 group:0", scopes(c))
		}
		if used := w.groupUsage(t, "other", "free"); used != 1 {
			t.Errorf("the former group counts %d calls, want 1", used)
		}
	})
}

// If a save makes the check start again before the group's step, the caller's own step is
// given back, and the group counts the call once.
func TestSaveBetweenOwnAndGroupSteps(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(100))
	w.saveGroupLimits(t)
	_, secret := w.create(t, "caller", "free")
	w.beforeSecondTrip(t, func() {
		w.save(t, func(s *policy.Set) { s.Plans[0].PerGroup = []limiter.Limit{hourly(50)} })
	})
	if c := w.expect(t, call(secret), "y"); scopes(c) != "key:99 group:49" {
		t.Errorf("got %s, want key:99 group:49", scopes(c))
	}
}

// Explain reports the limits of the key's group.
func TestExplainGroup(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(100))
	w.saveGroupLimits(t)
	k, secret := w.create(t, "caller", "free")
	w.expect(t, call(secret), "y")
	e, err := w.explainer.Explain(t.Context(), must(w.Set(t.Context())), k, call(secret))
	if err != nil || scopes(e.Result) != "key:99 group:99" || !e.Result.Allowed {
		t.Errorf("got %s, %v, want key:99 group:99", scopes(e.Result), err)
	}
}

// A record without a group has the layout of releases before groups. With a group, the
// description begins with the group.
func TestGroupInTheRecord(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(100))
	record := func(id string) []byte {
		return must(w.client.Do(t.Context(), w.client.B().Get().Key(keyspace.Record(id)).Build()).AsBytes())
	}
	k, _ := w.create(t, "none", "free")
	if r := record(k.ID); bytes.Contains(r, []byte("group")) {
		t.Errorf("no group: got %q, want no field group", r)
	}
	w.group = "cus_9:a@b.example-1"
	k, _ = w.create(t, "one", "free")
	want := `one{"group":"cus_9:a@b.example-1","kind":"key",`
	if r := record(k.ID); !bytes.Contains(r, []byte(want)) {
		t.Errorf("got %q, want %q in it", r, want)
	}
}

// admittedCall is an allowed call.
type admittedCall struct {
	key int                  // index of the calling key
	at  map[string]time.Time // by state: when it took the cost
}

// 200 concurrent clients call with three keys of one group in five environments. No
// rolling window of the group or of a key holds more than its limit. In the end each
// state counts exactly the allowed calls, so denied calls gave back what they took.
func TestGroupUnderLoad(t *testing.T) {
	const clients, each, environments = 200, 25, 5
	servers := map[string]func(testing.TB) string{"valkey": valkeytest.Start,
		"cluster": valkeytest.SharedCluster}
	own := [][]limiter.Limit{
		{{Requests: 150, Window: 200 * time.Millisecond}, {Requests: 700, Window: time.Hour}},
		{{Requests: 60, Window: 300 * time.Millisecond}, {Requests: 900, Window: time.Hour}},
		{{Requests: 2000, Window: time.Hour}},
	}
	shared := []limiter.Limit{{Requests: 120, Window: 150 * time.Millisecond},
		{Requests: 1500, Window: time.Hour}}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			w := open(t, start(t))
			w.group = "acme"
			var calls []Call
			for i, limits := range own {
				w.plan(t, "free", perMinute(1)...)
				k, secret := w.create(t, fmt.Sprint(i), "free")
				must(registrytest.Override(t.Context(), w, k.ID, k.Version,
					&policy.Override{Limits: limits, Reason: "x"}, byTest))
				calls = append(calls, call(secret))
			}
			w.save(t, func(s *policy.Set) { s.Plans[0].PerGroup = shared })
			checkers := make([]*Checker, environments)
			for i := range checkers {
				checkers[i] = NewChecker(w.client, testPepper)
			}
			var mu sync.Mutex
			var allowed []admittedCall
			var wait sync.WaitGroup
			for client := range clients {
				wait.Go(func() {
					for range each {
						checker, c := checkers[client%environments], calls[client%len(calls)]
						result, err := checker.Check(t.Context(), c, nil)
						if err != nil {
							t.Error(err)
							return
						}
						if result.Allowed {
							admitted := admittedCall{client % len(calls), map[string]time.Time{}}
							for _, taken := range result.taken {
								admitted.at[taken.keys[0]] = taken.at
							}
							mu.Lock()
							allowed = append(allowed, admitted)
							mu.Unlock()
						}
					}
				})
			}
			wait.Wait()
			group := keyspace.Of(policy.GroupID("acme"), policy.GroupState(1))
			w.wantWindows(t, group, shared, allowed)
			for i, c := range calls {
				w.wantWindows(t, keyspace.State(c.Subject), own[i], slices.DeleteFunc(slices.Clone(allowed),
					func(c admittedCall) bool { return c.key != i }))
			}
			t.Logf("%d of %d calls were allowed", len(allowed), clients*each)
		})
	}
}

// wantWindows requires that no rolling window of the allowed calls exceeds its limit, and
// that the state counts exactly these calls.
func (w *world) wantWindows(t *testing.T, state string, limits []limiter.Limit, allowed []admittedCall) {
	t.Helper()
	times := make([]time.Time, len(allowed))
	for i, c := range allowed {
		if times[i] = c.at[state]; times[i].IsZero() {
			t.Fatalf("an allowed call took nothing from %s", state)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, l := range limits {
		most := 0
		for first, i := 0, 0; i < len(times); i++ {
			for times[i].Sub(times[first]) >= l.Window {
				first++
			}
			most = max(most, i-first+1)
		}
		if int64(most) > l.Requests {
			t.Errorf("%s: a window of %s holds %d calls, want at most %d", state, l.Window, most, l.Requests)
		}
	}
	program := must(limiter.Compile(limits, time.Now()))
	peeked := must(limiter.PeekMany(t.Context(), w.client, []limiter.State{{Key: state, Program: program,
		Limits: limits}}))
	longest := peeked[0].Limits[len(limits)-1]
	if longest.Used() != int64(len(times)) {
		t.Errorf("%s counts %d calls, want the %d allowed", state, longest.Used(), len(times))
	}
}

// The name of a group is a short text that needs no escaping in a path.
func TestGroupNames(t *testing.T) {
	for name, valid := range map[string]bool{"acme": true, "A": true, "cus_NffrFeUfNV2Hib": true,
		"7.b:c@d-e": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
		"": false, "..": false, ".": false,
		"-a": false, "a b": false, "a/b": false, "a\"b": false, "é": false, "a\x00": false, "a<b": false} {
		if problem := policy.GroupProblem(name); (problem == "") != valid {
			t.Errorf("%q: got problem %q, want valid %t", name, problem, valid)
		}
	}
}

// Limits on groups are validated as shared limits are.
func TestGroupLimitsValidated(t *testing.T) {
	denied := hourly(5)
	denied.CountDenied = true
	for field, limits := range map[string][]limiter.Limit{
		"plans[0].perGroup[0].countDenied": {denied},
		"plans[0].perGroup[1].requests":    {hourly(5), hourly(2)},
		"plans[0].perGroup":                slices.Repeat([]limiter.Limit{hourly(5)}, limiter.MaxLimits+1),
		"plans[0].perGroup[0].window":      {{Requests: 5}},
	} {
		s := policy.Set{Plans: []policy.Plan{{Name: "free", Limits: perMinute(9), PerGroup: limits}},
			Routes: orders(3)}
		wantInvalid(t, s.Validate(), field)
	}
}
