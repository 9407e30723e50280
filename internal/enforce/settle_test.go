package enforce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// settle settles a reservation. It fails the test on an error.
func (w *world) settle(t *testing.T, reservation string, actual int64) Settlement {
	t.Helper()
	s, err := w.checker.Settle(t.Context(), reservation, actual)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// saveSettledRoute saves the route chat without limits, whose calls have this cost and
// are settled.
func (w *world) saveSettledRoute(t *testing.T, cost int64) {
	t.Helper()
	w.save(t, func(s *policy.Set) {
		s.Routes = []policy.Route{{Name: "chat", Cost: cost, Settle: true,
			Pattern: route.Pattern{Path: "/chat"}}}
	})
}

// openSettledRoute opens a world of one key with a limit per minute, where calls of the
// route chat cost so much and are settled.
func openSettledRoute(t *testing.T, url string, limit, cost int64) (*world, policy.Key, apikey.Secret) {
	t.Helper()
	w := open(t, url)
	w.plan(t, "free", perMinute(limit)...)
	w.saveSettledRoute(t, cost)
	k, secret := w.create(t, "chatty", "free")
	return w, k, secret
}

// A settlement gives back what was not used, and only once.
func TestSettle(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(20)...)
		w.saveSettledRoute(t, 8)
		_, secret := w.create(t, "chatty", "free")
		chat := call(secret).to("POST", "/chat")
		for i, step := range []struct {
			actual, remaining int64 // remaining after the next call, which costs 1
		}{{3, 16}, {0, 15}, {8, 6}} {
			c := w.check(t, chat)
			if s := w.settle(t, c.Reservation, step.actual); s.Reserved != 8 ||
				s.Actual != step.actual || s.Partial {
				t.Errorf("step %d: got %+v, want 8 reserved", i, s)
			}
			if _, err := w.checker.Settle(t.Context(), c.Reservation, 0); !errors.Is(err, ErrSettled) {
				t.Errorf("step %d, second settlement: got %v, want ErrSettled", i, err)
			}
			if got := w.check(t, call(secret)); got.Limits[0].Remaining != step.remaining ||
				got.Reservation != "" {
				t.Fatalf("step %d: got %s, want %d remaining", i, describe(got), step.remaining)
			}
		}
	})
}

// A settlement above the reserved cost is owed: the limits count all of it, and deny until
// it has drained.
func TestSettleAboveReserved(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", limiter.Limit{Requests: 10, Window: time.Hour},
			limiter.Limit{Requests: 12, Window: 2 * time.Hour})
		w.saveSettledRoute(t, 4)
		_, secret := w.create(t, "chatty", "free")
		chat := call(secret).to("POST", "/chat")
		if s := w.settle(t, w.check(t, chat).Reservation, 5); s.Owed != 0 {
			t.Errorf("got %+v, want all charged", s)
		}
		c := w.check(t, chat) // 1 remains
		if s := w.settle(t, c.Reservation, 9); s.Owed != 4 {
			t.Errorf("got %+v, want 4 owed", s)
		}
		if c := w.expect(t, call(secret), "n"); scopes(c) != "key:0 key:0" {
			t.Errorf("got %s, want key:0 key:0", scopes(c))
		}
	})
}

// A settlement changes the limits of every scope that took the cost.
func TestSettleEveryScope(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(100)...)
		w.group = "acme"
		_, secret := w.create(t, "one", "free")
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits, s.Global.Limits = perMinute(80), perMinute(90)
			s.Plans[0].PerGroup = perMinute(70)
			s.Routes = []policy.Route{{
				Name: "chat", Cost: 10, Settle: true, Pattern: route.Pattern{Path: "/chat"},
				PerKey: perMinute(40), PerIP: perMinute(50), Shared: perMinute(60),
			}}
		})
		chat := call(secret).from("192.0.2.1").to("POST", "/chat")
		for _, step := range []struct {
			actual int64
			want   string
		}{
			{0, "key:90 route:30 ip:70 route-ip:40 global:80 route-all:50 group:60"},
			{4, "key:90 route:30 ip:70 route-ip:40 global:80 route-all:50 group:60"},
			{26, "key:86 route:26 ip:66 route-ip:36 global:76 route-all:46 group:56"},
			{50, "key:60 route:0 ip:40 route-ip:10 global:50 route-all:20 group:30"},
		} {
			c := w.check(t, chat)
			if got := scopes(c); got != step.want {
				t.Fatalf("before settling %d: got %s, want %s", step.actual, got, step.want)
			}
			if s := w.settle(t, c.Reservation, step.actual); s.Partial {
				t.Fatalf("settling %d: got %+v, want nothing partial", step.actual, s)
			}
		}
	})
}

// A call under an override without limits is settled: the plan's limits, which go on
// counting, get back what it did not use.
func TestSettleUnderOverrideWithoutLimits(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(20)...)
		w.saveSettledRoute(t, 8)
		k, secret := w.create(t, "lifted", "free")
		k = must(registrytest.Override(t.Context(), w, k.ID, k.Version, &policy.Override{Reason: "launch"},
			byTest))
		c := w.expect(t, call(secret).to("POST", "/chat"), "y")
		w.settle(t, c.Reservation, 3)
		must(registrytest.Override(t.Context(), w, k.ID, k.Version, nil, byTest))
		if c := w.check(t, call(secret)); scopes(c) != "key:16" {
			t.Errorf("after the override: got %s, want key:16", describe(c))
		}
	})
}

// Settle refuses texts that are no reservation, reservations signed with another pepper,
// and costs out of range.
func TestForgedReservations(t *testing.T) {
	w, _, secret := openSettledRoute(t, valkeytest.Embedded(t), 20, 8)
	good := w.check(t, call(secret).to("POST", "/chat")).Reservation
	for _, text := range []string{"", good[:len(good)-1], good + "A", secret.Reveal()} {
		if _, err := w.checker.Settle(t.Context(), text, 0); !errors.Is(err, ErrReservation) {
			t.Fatalf("%q: got %v, want ErrReservation", text, err)
		}
	}
	other := NewChecker(w.client, apikey.Pepper(strings.Repeat("q", 32)))
	if _, err := other.Settle(t.Context(), good, 0); !errors.Is(err, ErrReservation) {
		t.Errorf("another pepper: got %v, want ErrReservation", err)
	}
	for _, actual := range []int64{-1, limiter.MaxRequests + 1} {
		if _, err := w.checker.Settle(t.Context(), good, actual); !errors.Is(err, limiter.ErrCost) {
			t.Errorf("cost %d: got %v, want ErrCost", actual, err)
		}
	}
	w.settle(t, good, 0)
}

// An expired reservation cannot be settled, and its cost stays taken.
func TestReservationExpires(t *testing.T) {
	w, _, secret := openSettledRoute(t, valkeytest.Start(t), 10, 6)
	w.checker.ReservationExpiry = -time.Microsecond
	c := w.check(t, call(secret).to("POST", "/chat"))
	if _, err := w.checker.Settle(t.Context(), c.Reservation, 0); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v, want ErrExpired", err)
	}
	if c := w.check(t, call(secret)); c.Limits[0].Remaining != 3 {
		t.Errorf("got %s, want 3 remaining", describe(c))
	}
}

// The mark of a settled reservation expires with the reservation.
func TestSettledMarkExpires(t *testing.T) {
	w, k, secret := openSettledRoute(t, valkeytest.Start(t), 10, 6)
	w.settle(t, w.check(t, call(secret).to("POST", "/chat")).Reservation, 6)
	keys := must(w.client.Do(t.Context(), w.client.B().Keys().Pattern("*"+k.ID+":sm*").Build()).AsStrSlice())
	if len(keys) != 1 {
		t.Fatalf("got marks %v, want one", keys)
	}
	ttl := must(w.client.Do(t.Context(), w.client.B().Pttl().Key(keys[0]).Build()).AsInt64())
	if left := time.Duration(ttl) * time.Millisecond; left <= 0 || left > defaultReservationExpiry {
		t.Errorf("got a time to live of %s, want at most %s", left, defaultReservationExpiry)
	}
}

// A settlement applies to the limits in force now. Counts survive an edit, as in checks.
func TestSettleAfterEdits(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*testing.T, *world, policy.Key)
		want int64 // remaining after the call is settled with 0, and one call of cost 1
	}{
		"raised":  {func(t *testing.T, w *world, _ policy.Key) { w.plan(t, "free", perMinute(30)...) }, 29},
		"lowered": {func(t *testing.T, w *world, _ policy.Key) { w.plan(t, "free", perMinute(9)...) }, 8},
		"window": {func(t *testing.T, w *world, _ policy.Key) {
			w.plan(t, "free", limiter.Limit{Requests: 20, Window: time.Hour})
		}, 19},
		"override": {func(t *testing.T, w *world, k policy.Key) {
			must(registrytest.Override(t.Context(), w, k.ID, k.Version,
				&policy.Override{Limits: perMinute(50), Reason: "more"}, byTest))
		}, 49},
		"override of the group": {func(t *testing.T, w *world, k policy.Key) {
			w.moveToGroup(t, k, "acme")
			w.save(t, func(s *policy.Set) {
				s.GroupOverrides = map[string]policy.Override{"acme": {Limits: perMinute(50), Reason: "more"}}
			})
		}, 49},
		"route deleted": {func(t *testing.T, w *world, _ policy.Key) {
			w.save(t, func(s *policy.Set) { s.Routes = nil })
		}, 19},
	} {
		t.Run(name, func(t *testing.T) {
			w, k, secret := openSettledRoute(t, valkeytest.Embedded(t), 20, 8)
			r := w.check(t, call(secret).to("POST", "/chat")).Reservation
			c.edit(t, w, k)
			w.settle(t, r, 0)
			if got := w.check(t, call(secret)); got.Limits[0].Remaining != c.want {
				t.Errorf("got %s, want %d remaining", describe(got), c.want)
			}
		})
	}
}

// A reservation of a deleted key can be settled.
func TestSettleOfADeletedKey(t *testing.T) {
	w, k, secret := openSettledRoute(t, valkeytest.Start(t), 20, 8)
	r := w.check(t, call(secret).to("POST", "/chat")).Reservation
	if err := w.Delete(t.Context(), k.ID, byTest); err != nil {
		t.Fatal(err)
	}
	w.settle(t, r, 0)
}

// Of concurrent settlements of one reservation, exactly one succeeds.
func TestSettledOnce(t *testing.T) {
	w, _, secret := openSettledRoute(t, valkeytest.Start(t), 20, 8)
	r := w.check(t, call(secret).to("POST", "/chat")).Reservation
	var settled atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			switch _, err := w.checker.Settle(t.Context(), r, 3); {
			case err == nil:
				settled.Add(1)
			case !errors.Is(err, ErrSettled):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c := w.check(t, call(secret)); settled.Load() != 1 || c.Limits[0].Remaining != 16 {
		t.Errorf("settled %d times with %s, want once with 16 remaining", settled.Load(), describe(c))
	}
}

// Reserve takes from the limits that a Check takes from, without the secret, and whatever
// routes the key and its plan open.
func TestReserve(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(10)...)
		w.save(t, func(s *policy.Set) {
			s.Global.Limits = perMinute(9)
			s.Routes = []policy.Route{{Name: "chat", Cost: 1, Pattern: route.Pattern{Path: "/chat"},
				PerKey: perMinute(7), Shared: perMinute(8)}}
		})
		k, _ := w.create(t, "worker", "free")
		w.openPlan(t, "free", "GET /orders")
		w.openKey(t, k.ID, "GET /orders")
		k = must(w.Get(t.Context(), k.ID))
		c := must(w.checker.Reserve(t.Context(), k.ID, "chat", 5))
		if got := scopes(c); !c.Allowed || got != "key:5 route:2 global:4 route-all:3" {
			t.Fatalf("got %s, want key:5 route:2 global:4 route-all:3", describe(c))
		}
		if denied := must(w.checker.Reserve(t.Context(), k.ID, "chat", 3)); denied.Allowed ||
			denied.RetryAfter() <= 0 || denied.Reservation != "" {
			t.Errorf("got %s, want a denial without a reservation", describe(denied))
		}
		w.settle(t, c.Reservation, 0)
		if c := must(w.checker.Reserve(t.Context(), k.ID, "", 9)); scopes(c) != "key:1 global:0" {
			t.Errorf("got %s, want key:1 global:0", describe(c))
		}
		for want, try := range map[error]func() (Result, error){
			policy.ErrNotFound: func() (Result, error) {
				return w.checker.Reserve(t.Context(), "nobody", "", 1)
			},
			limiter.ErrCost: func() (Result, error) { return w.checker.Reserve(t.Context(), k.ID, "", 0) },
		} {
			if _, err := try(); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		if _, err := w.checker.Reserve(t.Context(), k.ID, "no such route", 1); !errors.Is(err,
			policy.ErrNotFound) {
			t.Errorf("unknown route: got %v, want ErrNotFound", err)
		}
		if _, err := w.checker.Reserve(t.Context(), k.ID, "chat", 8); !errors.Is(err, limiter.ErrCost) {
			t.Errorf("cost above the route's limit: got %v, want ErrCost", err)
		}
		must(registrytest.Revoke(t.Context(), w, k.ID, k.Version, byTest))
		if _, err := w.checker.Reserve(t.Context(), k.ID, "", 1); !errors.Is(err, policy.ErrUnknownKey) {
			t.Errorf("revoked key: got %v, want ErrUnknownKey", err)
		}
	})
}

// A cost above a shared limit is an error and takes nothing. For an unknown key, the
// error is that the key is unknown.
func TestCostAboveASharedLimit(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(10)...)
	k, _ := w.create(t, "costly", "free")
	w.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(4) })
	if _, err := w.checker.Reserve(t.Context(), k.ID, "", 5); !errors.Is(err, limiter.ErrCost) {
		t.Errorf("got %v, want ErrCost", err)
	}
	if c := must(w.checker.Reserve(t.Context(), k.ID, "", 1)); scopes(c) != "key:9 global:3" {
		t.Errorf("got %s, want key:9 global:3", scopes(c))
	}
	_, unknown := w.create(t, "unknown", "free")
	if err := w.Delete(t.Context(), unknown.ID(), byTest); err != nil {
		t.Fatal(err)
	}
	w.save(t, func(s *policy.Set) {
		s.Routes = []policy.Route{{Name: "odd", Cost: 4, Pattern: route.Pattern{Path: "/odd"}}}
	})
	if _, err := w.checker.Check(t.Context(), call(unknown).to("GET", "/odd"), nil); !errors.Is(err,
		policy.ErrUnknownKey) {
		t.Errorf("got %v, want ErrUnknownKey", err)
	}
}

// modelledCaller is a caller in Valkey with models of its plan's limits and of a route's.
type modelledCaller struct {
	*world
	secret      apikey.Secret
	plan, route limiter.Model
	limits      [2][]limiter.Limit // of the plan, of the route
	open        []Result           // with reservations that are not settled yet
	log         []string
}

// fits reports whether the models have room for a cost.
func (w *modelledCaller) fits(now time.Time, cost int64) bool {
	for i, m := range []*limiter.Model{&w.plan, &w.route} {
		for _, u := range m.Peek(now, w.limits[i]).Limits {
			if u.Remaining < cost {
				return false
			}
		}
	}
	return true
}

// call reserves a cost, and requires the result that the models predict.
func (w *modelledCaller) call(t *rapid.T, cost int64) {
	c, err := w.checker.Reserve(context.Background(), w.secret.ID(), "chat", cost)
	if err != nil {
		t.Fatal(err)
	}
	fits := w.fits(c.Now, cost)
	w.log = append(w.log, fmt.Sprintf("%d cost %d: %t", c.Now.UnixMicro(), cost, c.Allowed))
	if fits != c.Allowed {
		t.Fatalf("%v\n%s\nthe models predict allowed %t", w.limits, strings.Join(w.log, "\n"), fits)
	}
	if !fits {
		return
	}
	w.open = append(w.open, c)
	i := 0
	for n, m := range []*limiter.Model{&w.plan, &w.route} {
		d, err := m.Take(c.Now, w.limits[n], cost)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range d.Limits {
			if c.Limits[i].Remaining != u.Remaining {
				t.Fatalf("%v\n%s\nlimit %d: got %d remaining, the models predict %d", w.limits,
					strings.Join(w.log, "\n"), i, c.Limits[i].Remaining, u.Remaining)
			}
			i++
		}
	}
}

// settleOne settles one of the open reservations, and requires the settlement that the
// models predict.
func (w *modelledCaller) settleOne(t *rapid.T) {
	i := rapid.IntRange(0, len(w.open)-1).Draw(t, "which")
	c := w.open[i]
	w.open = append(w.open[:i:i], w.open[i+1:]...)
	actual := rapid.Int64Range(0, 2*c.Cost).Draw(t, "actual")
	s, err := w.checker.Settle(context.Background(), c.Reservation, actual)
	if err != nil {
		t.Fatal(err)
	}
	w.log = append(w.log, fmt.Sprintf("%d actual %d of %d, taken at %d", s.Now.UnixMicro(), actual,
		c.Cost, c.Now.UnixMicro()))
	var owed int64
	partial := false
	for n, m := range []*limiter.Model{&w.plan, &w.route} {
		if actual < c.Cost {
			d := m.Refund(s.Now, w.limits[n], c.Cost-actual, 0, c.Now, 0)
			partial = partial || d.Unreturned > 0
			continue
		}
		if extra := actual - c.Cost; extra > 0 {
			for _, u := range m.Step(limiter.Step{Now: s.Now, Limits: w.limits[n], Cost: extra,
				Force: true}).Limits {
				owed = max(owed, u.Owed)
			}
		}
	}
	if s.Owed != owed {
		t.Fatalf("%v\n%s\n%d owed; the models predict %d", w.limits, strings.Join(w.log, "\n"), s.Owed, owed)
	}
	if s.Partial != partial {
		t.Fatalf("%v\n%s\npartial %t; the models predict partial %t",
			w.limits, strings.Join(w.log, "\n"), s.Partial, partial)
	}
}

// In random histories of calls and settlements, Valkey counts as the models do.
func TestSettleAgainstTheModels(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	rapid.Check(t, func(r *rapid.T) {
		tw := &modelledCaller{world: w}
		for i := range tw.limits {
			tw.limits[i] = rapid.SliceOfN(randomLimit, 1, 2).Draw(r, "limits")
		}
		w.plan(t, "random", tw.limits[0]...)
		w.save(t, func(s *policy.Set) {
			s.Routes = []policy.Route{{Name: "chat", Cost: 1, Settle: true,
				Pattern: route.Pattern{Path: "/chat"}, PerKey: tw.limits[1]}}
		})
		_, tw.secret = w.create(t, "random", "random")
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			if len(tw.open) > 0 && rapid.Bool().Draw(r, "settle") {
				tw.settleOne(r)
			} else {
				tw.call(r, rapid.Int64Range(1, 6).Draw(r, "cost"))
			}
		}
	})
}

var randomLimit = rapid.Custom(func(t *rapid.T) limiter.Limit {
	return limiter.Limit{
		Requests:  rapid.Int64Range(6, 40).Draw(t, "requests"),
		Algorithm: rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm"),
		Window: time.Duration(rapid.SampledFrom([]int{2, 5, 20, 1000, 60_000}).Draw(t,
			"window")) * time.Millisecond,
	}
})
