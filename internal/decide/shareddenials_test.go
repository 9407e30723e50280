package decide

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// asked is a Source that counts the calls that reach Valkey.
type asked struct {
	connected
	calls int
}

func (a *asked) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	a.calls++
	return a.connected.Check(ctx, call)
}

// flood is a Decider on a set with a limit of one shared scope, and callers of one
// address and group.
type flood struct {
	*valkeyFixture
	*Decider
	t      *testing.T
	scope  string
	source *asked
	clock  time.Time
	calls  []enforce.Call
}

// newFlood uses up the limit with calls of verified callers.
func newFlood(t *testing.T, scope string) *flood {
	f := &flood{t: t, scope: scope, clock: time.Now()}
	f.valkeyFixture = open(t, valkeytest.Start(t), policy.Plan{})
	f.limit(perCaller * callersOfFlood)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.source = &asked{connected: connected{f.Checker}}
	f.Decider = NewDecider(f.source, Settings{Pepper: pepper, CallerCache: time.Hour,
		DenyCache: denialLifetime, Sectors: 1}, func() time.Time { return f.clock })
	for i := range callersOfFlood {
		_, s := registrytest.Create(t, f.store, byTest,
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: "free", Group: "team"})
		c := callWith(s)
		c.Address = netip.MustParseAddr("192.0.2.1")
		c.Network = netip.MustParsePrefix("192.0.2.1/32")
		f.calls = append(f.calls, c)
	}
	for i := range perCaller * callersOfFlood {
		f.call(f.calls[i%callersOfFlood], true)
	}
	f.source.calls = 0
	return f
}

const perCaller, callersOfFlood = 2, 20

// limit saves the limit.
func (f *flood) limit(requests int64) {
	f.t.Helper()
	set, err := f.store.Set(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	limits := []limiter.Limit{{Requests: requests, Window: time.Hour}}
	set.Routes = []policy.Route{{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 1}}
	switch f.scope {
	case policy.ScopeIP:
		set.PerIP.Limits = limits
	case policy.ScopeRouteIP:
		set.Routes[0].PerIP = limits
	case policy.ScopeGlobal:
		set.Global.Limits = limits
	case policy.ScopeRouteAll:
		set.Routes[0].Shared = limits
	case policy.ScopeGroup:
		set.Plans[0].PerGroup = limits
	}
	if _, err := f.store.SaveSet(f.t.Context(), *set, byTest); err != nil {
		f.t.Fatal(err)
	}
}

func (f *flood) call(c enforce.Call, want bool) enforce.Result {
	f.t.Helper()
	result, _, err := f.Decide(f.t.Context(), c)
	if err != nil || result.Allowed != want || result.ID != c.Subject || result.Plan != "free" {
		f.t.Fatalf("got %+v, %v, want allowed %t", result, err, want)
	}
	return result
}

// scripts returns how many scripts Valkey has run.
func (f *flood) scripts() (calls int) {
	f.t.Helper()
	stats, err := f.client.Do(f.t.Context(), f.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		f.t.Fatal(err)
	}
	_, after, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscanf(after, "%d", &calls); err != nil {
		f.t.Fatal(err)
	}
	return calls
}

// A flood of verified callers over a limit that they share asks Valkey 10 times and then
// once in each lifetime, whichever callers it has; each caller of a group does. Callers
// that this process did not verify ask Valkey, and those of other addresses if the limit
// is on each.
func TestSharedDenialsAreRepeated(t *testing.T) {
	for _, scope := range sharedScopes {
		t.Run(scope, func(t *testing.T) {
			f := newFlood(t, scope)
			const calling = time.Second
			for i := range 1_000 {
				f.clock = f.clock.Add(calling / 1_000)
				result := f.call(f.calls[i%callersOfFlood], false)
				if wait := result.RetryAfter(); wait < 59*time.Minute || wait > time.Hour {
					t.Fatalf("got Retry-After %s, want the hour less what passed", wait)
				}
			}
			asking := 1
			if scope == policy.ScopeGroup {
				asking = callersOfFlood
			}
			if most := 10 + asking*int(calling/denialLifetime); f.source.calls > most {
				t.Errorf("%d of 1,000 denied calls reached Valkey, want at most %d", f.source.calls, most)
			}

			f.source.calls = 0
			perAddress := scope == policy.ScopeIP || scope == policy.ScopeRouteIP
			elsewhere, want := f.calls[(1_000-1)%callersOfFlood], 1
			if elsewhere.Network = netip.MustParsePrefix("192.0.2.2/32"); perAddress {
				want++
			}
			f.call(elsewhere, perAddress)
			stranger := callWith(f.secret)
			stranger.Address, stranger.Network = f.calls[0].Address, f.calls[0].Network
			f.call(stranger, scope == policy.ScopeGroup)
			if f.source.calls != want {
				t.Errorf("%d calls reached Valkey, want %d", f.source.calls, want)
			}
		})
	}
}

// A key that leaves a full group is admitted at most a lifetime later, although the
// group's other callers go on being denied.
func TestDenialsEndWhenAKeyLeavesItsGroup(t *testing.T) {
	f := newFlood(t, policy.ScopeGroup)
	flooding := func() {
		for range 5 * callersOfFlood {
			f.clock = f.clock.Add(denialLifetime / (2 * callersOfFlood))
			for _, c := range f.calls[1:] {
				f.call(c, false)
			}
		}
	}
	flooding()
	f.call(f.calls[0], false)
	k, err := f.store.Get(t.Context(), f.calls[0].Subject)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Update(t.Context(), k.ID, k.Version, "key.edit", byTest,
		func(k *policy.Key) { k.Group = "" }); err != nil {
		t.Fatal(err)
	}
	flooding()
	f.call(f.calls[0], true)
}

// A caller that is denied by the limit on an address is admitted from another one, also
// in an environment that knows no callers.
func TestDenialsOfAnAddressStayThere(t *testing.T) {
	for _, scope := range []string{policy.ScopeIP, policy.ScopeRouteIP} {
		for _, callerCache := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(scope, callerCache), func(t *testing.T) {
				f := newFlood(t, scope)
				f.Decider = NewDecider(f.source, Settings{Pepper: pepper, CallerCache: callerCache,
					DenyCache: denialLifetime, Sectors: 1}, func() time.Time { return f.clock })
				for range 2 * repeatAfter {
					f.call(f.calls[0], false)
				}
				if f.source.calls != repeatAfter {
					t.Errorf("%d denied calls reached Valkey, want %d", f.source.calls, repeatAfter)
				}
				elsewhere := f.calls[0]
				elsewhere.Network = netip.MustParsePrefix("192.0.2.2/32")
				f.call(elsewhere, true)
				f.call(f.calls[0], false)
			})
		}
	}
}

// While a shared limit is full, a verified caller's call that reaches Valkey runs one
// script. A higher limit acts on the next call that does, which takes from it once.
func TestFullLimitsAreAskedFirst(t *testing.T) {
	for _, scope := range sharedScopes {
		if scope == policy.ScopeGroup { // only Valkey knows the caller's group
			continue
		}
		t.Run(scope, func(t *testing.T) {
			f := newFlood(t, scope)
			f.call(f.calls[0], false) // the first one runs three scripts
			before := f.scripts()
			const denials = 30
			for i := range denials {
				f.clock = f.clock.Add(denialLifetime)
				f.call(f.calls[i%callersOfFlood], false)
			}
			if ran := f.scripts() - before; ran != denials || f.source.calls != denials+1 {
				t.Errorf("%d denied calls ran %d scripts, want one each", f.source.calls, ran)
			}
			const more = 5
			f.limit(perCaller*callersOfFlood + more)
			f.clock = f.clock.Add(denialLifetime)
			for left := int64(more - 1); left >= 0; left-- {
				result := f.call(f.calls[0], true)
				if shared := result.Limits[len(result.Limits)-1]; shared.Remaining != left {
					t.Errorf("%d remain of the limit, want %d", shared.Remaining, left)
				}
			}
			f.call(f.calls[0], false)
		})
	}
}
