package enforce

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// countingClient counts round trips: commands that leave in one flush make one.
type countingClient struct {
	valkey.Client
	trips  atomic.Int64
	before func(trip int64) // called before each trip, with its number from 1; may be nil
}

func (c *countingClient) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	c.count()
	return c.Client.Do(ctx, command)
}

func (c *countingClient) DoMulti(ctx context.Context, commands ...valkey.Completed) []valkey.ValkeyResult {
	c.count()
	return c.Client.DoMulti(ctx, commands...)
}

func (c *countingClient) count() {
	if trip := c.trips.Add(1); c.before != nil {
		c.before(trip)
	}
}

// countTrips replaces the checker by one whose round trips are counted.
func (w *world) countTrips() *countingClient {
	client := &countingClient{Client: w.client}
	w.checker = NewChecker(client, testPepper)
	return client
}

// tripCase prepares a check whose round trips are counted, and returns its call.
type tripCase func(t *testing.T, w *world) Call

// callByNewKey creates a key and returns a call by it.
func callByNewKey(t *testing.T, w *world, plan string) Call {
	t.Helper()
	_, secret := w.create(t, "caller", plan)
	return call(secret).from(testAddress)
}

// saveGlobal saves limits on all callers, and makes the checker read the policy set.
func saveGlobal(t *testing.T, w *world, global policy.Scope) {
	t.Helper()
	w.save(t, func(s *policy.Set) { s.Global = global })
	w.expect(t, callByNewKey(t, w, "pro"), "y")
}

// tripCases has the rows of the table of round trips in docs/architecture.md.
var tripCases = map[string]tripCase{
	"no shared limit applies": func(t *testing.T, w *world) Call {
		w.expect(t, callByNewKey(t, w, "pro"), "y")
		return callByNewKey(t, w, "pro")
	},
	"cost 0 or an exempt address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return callByNewKey(t, w, "pro").from("203.0.113.1")
	},
	"shared limits, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits = []limiter.Limit{hourly(100)}
			s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: []limiter.Limit{hourly(50)},
				Shared: []limiter.Limit{hourly(100)}}}
		})
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"a key that opens only some routes, its first call in this environment": func(t *testing.T,
		w *world) Call {
		w.expect(t, callByNewKey(t, w, "pro"), "y")
		c := callByNewKey(t, w, "pro")
		w.openKey(t, c.Subject, "GET *")
		return c
	},
	"a key that opens only some routes, later calls, also refused ones": func(t *testing.T,
		w *world) Call {
		w.expect(t, callByNewKey(t, w, "pro"), "y")
		c := callByNewKey(t, w, "pro")
		w.openKey(t, c.Subject, "GET /none")
		w.expectClosed(t, "first", c)
		return c
	},
	"a route that only some plans open": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.Plans = append(s.Plans, policy.Plan{Name: "closed", Limits: perMinute(9),
				Allow: patterns("GET /none")})
		})
		w.expect(t, callByNewKey(t, w, "pro"), "y")
		return callByNewKey(t, w, "pro")
	},
	"shared limits, caller not seen lately": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return callByNewKey(t, w, "pro")
	},
	"unknown, revoked, expired or banned caller": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return call(must(apikey.Generate("test")))
	},
	"refused address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Deny = []netip.Prefix{netip.MustParsePrefix(deniedRange)} })
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return callByNewKey(t, w, "pro").from("198.51.100.7")
	},
	"caller over its own limits": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := callByNewKey(t, w, "free")
		w.expect(t, c, "y")
		return c
	},
	"caller allowed here in the last 10 s that may not call since": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		k, secret := w.create(t, "caller", "pro")
		w.expect(t, call(secret), "y")
		must(registrytest.Revoke(t.Context(), w, k.ID, k.Version, byTest))
		return call(secret)
	},
	"denied by a shared limit, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(2)}})
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"denied by a shared limit, caller not seen lately": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(1)}})
		return callByNewKey(t, w, "pro")
	},
	"denied by a shared limit that denied a known caller a moment ago": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(1)}})
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "n")
		c.Full = policy.ScopeGlobal
		return c
	},
	"limits on a group, caller not seen lately": func(t *testing.T, w *world) Call {
		w.saveGroupLimits(t)
		w.expect(t, callByNewKey(t, w, "pro"), "y") // makes the checker read the policy set
		return callByNewKey(t, w, "pro")
	},
	"limits on a group, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		w.saveGroupLimits(t)
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"limits on a group, caller allowed here in the last 10 s as one of another group": func(t *testing.T,
		w *world) Call {
		w.saveGroupLimits(t)
		k, secret := w.create(t, "caller", "pro")
		w.expect(t, call(secret), "y")
		w.moveToGroup(t, k, "zebra")
		return call(secret)
	},
	"first check after a save, no shared limit applies": func(t *testing.T, w *world) Call {
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "y")
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits = []limiter.Limit{hourly(2)} })
		return c
	},
	"first check after a save, shared limits": func(t *testing.T, w *world) Call {
		saveGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := callByNewKey(t, w, "pro")
		w.expect(t, c, "y")
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits = []limiter.Limit{hourly(2)} })
		return c
	},
}

var tripRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d) \|$`)

// A check takes as many round trips as the table in docs/architecture.md says.
func TestRoundTrips(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range tripRow.FindAllStringSubmatch(string(text), -1) {
		documented[strings.TrimSpace(row[1])] = row[2]
	}
	for name := range documented {
		if tripCases[name] == nil {
			t.Errorf("docs/architecture.md: no test covers the row %q", name)
		}
	}
	for name, prepare := range tripCases {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.plan(t, "free", hourly(1))
			w.plan(t, "pro", hourly(1000))
			client := w.countTrips()
			w.loadScripts(t)
			c := prepare(t, w)
			client.trips.Store(0)
			_, _ = w.checker.Check(t.Context(), c, nil) // only the round trips matter
			if got := fmt.Sprint(client.trips.Load()); got != documented[name] {
				t.Errorf("got %s round trips, want %q as in docs/architecture.md", got, documented[name])
			}
		})
	}
}

// loadScripts loads the scripts of checks into the server.
func (w *world) loadScripts(t *testing.T) {
	t.Helper()
	for _, s := range []*lua.Script{checkScript, wideScript, stepScript} {
		if err := w.client.Do(t.Context(),
			w.client.B().ScriptLoad().Script(s.Text()).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// beforeSecondTrip calls run before the second round trip of the next check: after the
// caller's own step and before the steps on shared limits.
func (w *world) beforeSecondTrip(t *testing.T, run func()) {
	t.Helper()
	w.loadScripts(t)
	client := w.countTrips()
	if err := w.checker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.trips.Store(0)
	client.before = func(trip int64) {
		if trip == 2 {
			run()
		}
	}
}

// A save between the two round trips makes the check start again. What the caller's own
// step took is given back, by the newer limits.
func TestSaveBetweenTheRoundTrips(t *testing.T) {
	for name, change := range map[string]func(*policy.Set){
		"of the same policy set": func(*policy.Set) {},
		"of the caller's plan": func(s *policy.Set) {
			s.Plans[0].Limits = []limiter.Limit{{Requests: 100, Window: 2 * time.Hour}}
		},
		"of another algorithm": func(s *policy.Set) { s.Plans[0].Limits[0].Algorithm = limiter.FixedWindow },
		"of the shared limit":  func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(70)} },
		"of the route's cost":  func(s *policy.Set) { s.Routes[0].Cost = 2 },
		"of the caller's limit on the route": func(s *policy.Set) {
			s.Routes[0].PerKey = []limiter.Limit{{Requests: 100, Window: 2 * time.Hour}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.plan(t, "pro", hourly(100))
			w.save(t, func(s *policy.Set) {
				s.Global.Limits = []limiter.Limit{hourly(100)}
				s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: []limiter.Limit{hourly(100)}}}
			})
			_, secret := w.create(t, "caller", "pro")
			var saved *policy.Set
			w.beforeSecondTrip(t, func() { saved = w.save(t, change) })
			c := w.expect(t, call(secret), "y")
			if c.SetVersion != saved.Version {
				t.Errorf("got version %d, want %d", c.SetVersion, saved.Version)
			}
			for _, l := range c.Limits {
				if want := l.Limit.Requests - saved.Routes[0].Cost; l.Remaining != want {
					t.Errorf("%s: got %d remaining of %s, want %d", l.Scope, l.Remaining, l.Limit, want)
				}
			}
		})
	}
}

// If the context of a check ends between the two round trips, what the caller's own step
// took is given back.
func TestSecondRoundTripFails(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "pro", hourly(100))
	w.save(t, func(s *policy.Set) {
		s.Global = policy.Scope{Limits: []limiter.Limit{hourly(100)}}
		s.Routes = []policy.Route{{Name: "all", Cost: 3, PerKey: []limiter.Limit{hourly(60)}}}
	})
	_, secret := w.create(t, "caller", "pro")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.beforeSecondTrip(t, cancel)
	if c, err := w.checker.Check(ctx, call(secret), nil); err == nil || c.Allowed {
		t.Fatalf("got %s, %v, want an error", describe(c), err)
	}
	if got := scopes(w.expect(t, call(secret), "y")); got != "key:97 route:57 global:97" {
		t.Errorf("after the failed check: got %s, want key:97 route:57 global:97", got)
	}
}

// Piggybacked commands leave in the first flush of a check, also if a second one follows.
func TestPiggybackLeavesInTheFirstFlush(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "pro", hourly(100))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(100)} })
	_, secret := w.create(t, "caller", "pro")
	name, sent := keyspace.Of("sent", "m1"), false
	done := 0
	with := NewPiggyback(w.client,
		[]valkey.Completed{w.client.B().Hincrby().Key(name).Field("0").Increment(1).Build()},
		func(results []valkey.ValkeyResult) { done += len(results) })
	w.beforeSecondTrip(t, func() {
		sent = must(w.client.Do(t.Context(), w.client.B().Hexists().Key(name).Field("0").Build()).AsBool())
	})
	if c, err := w.checker.Check(t.Context(), call(secret), with); err != nil || !c.Allowed ||
		!sent || done != 1 {
		t.Errorf("got %s, %v with the command sent first: %t and %d results, want true and 1", describe(c),
			err, sent, done)
	}
}

// Reserve checks the caller's own limits before shared ones, as Check does.
func TestReserveChecksOwnLimitsFirst(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server)
	w.plan(t, "free", hourly(10))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(100)} })
	k, _ := w.create(t, "caller", "free")
	w.loadScripts(t)
	client := w.countTrips()
	reserve := func(cost, trips int64, want string) {
		t.Helper()
		client.trips.Store(0)
		c, err := w.checker.Reserve(t.Context(), k.ID, "", cost)
		if got := scopes(c); err != nil || got != want || client.trips.Load() != trips {
			t.Errorf("cost %d: got %s, %v in %d round trips, want %s in %d", cost, got, err,
				client.trips.Load(), want, trips)
		}
	}
	if err := w.checker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	reserve(4, 3, "key:6 global:96") // one more trip reads the record
	reserve(4, 2, "key:2 global:92")
	monitor := valkeytest.StartMonitor(t, server)
	reserve(4, 2, "key:2")
	for _, command := range monitor.Commands() {
		if strings.Contains(command, keyspace.State(policy.GlobalID)) {
			t.Errorf("the server ran %s on the shared limit", command)
		}
	}
}

// Explain checks shared limits only for a call that the caller's own limits allow.
func TestExplainChecksOwnLimitsFirst(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server)
	w.plan(t, "free", hourly(1))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(100)} })
	k, secret := w.create(t, "caller", "free")
	set := must(w.Set(t.Context()))
	for _, c := range []struct {
		change func(*policy.Key)
		want   string
	}{
		{func(*policy.Key) {}, "key:1 global:100"},
		{func(k *policy.Key) { k.Status = policy.Revoked }, "key:1"},
		{func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }, "key:1"},
		{func(*policy.Key) { w.expect(t, call(secret), "y") }, "key:0"},
	} {
		changed := k
		c.change(&changed)
		monitor := valkeytest.StartMonitor(t, server)
		e, err := w.explainer.Explain(t.Context(), set, changed, call(secret))
		if got := scopes(e.Result); err != nil || got != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
		checked := strings.Contains(strings.Join(monitor.Commands(), "\n"), keyspace.State(policy.GlobalID))
		if checked != strings.Contains(c.want, "global") {
			t.Errorf("%s: the limit on all callers was checked: %t", c.want, checked)
		}
	}
}
