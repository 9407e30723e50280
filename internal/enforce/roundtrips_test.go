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
	"tidegate/internal/testing/valkeytest"
)

// countingClient counts round trips: commands that leave in one flush make one.
type countingClient struct {
	valkey.Client
	trips  atomic.Int64
	before func(trip int64) // called ahead of each, with its number from 1; nil for nothing
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

// counted makes the world's checker one whose round trips are counted.
func (w *world) counted() *countingClient {
	client := &countingClient{Client: w.client}
	w.checker = NewChecker(client, testPepper)
	return client
}

// tripCase is a check whose round trips are counted. prepare returns the call.
type tripCase func(t *testing.T, w *world) Call

func byNewKey(t *testing.T, w *world, plan string) Call {
	t.Helper()
	_, secret := w.create(t, "caller", plan)
	return call(secret).from(orderAddress)
}

func withGlobal(t *testing.T, w *world, global policy.Scope) {
	t.Helper()
	w.save(t, func(s *policy.Set) { s.Global = global })
	w.expect(t, byNewKey(t, w, "pro"), "y") // so that the checker knows the Set
}

// tripCases are the rows of the table in docs/architecture.md.
var tripCases = map[string]tripCase{
	"no shared limit applies": func(t *testing.T, w *world) Call {
		w.expect(t, byNewKey(t, w, "pro"), "y")
		return byNewKey(t, w, "pro")
	},
	"cost 0 or an exempt address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return byNewKey(t, w, "pro").from("203.0.113.1")
	},
	"shared limits, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits = []limiter.Limit{hourly(100)}
			s.Routes = []policy.Route{{Name: "all", Cost: 1, PerKey: []limiter.Limit{hourly(50)},
				Shared: []limiter.Limit{hourly(100)}}}
		})
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := byNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"a key that opens only some routes, its first call in this environment": func(t *testing.T,
		w *world) Call {
		w.expect(t, byNewKey(t, w, "pro"), "y")
		c := byNewKey(t, w, "pro")
		w.openKey(t, c.Subject, "GET *")
		return c
	},
	"a key that opens only some routes, later calls, also refused ones": func(t *testing.T,
		w *world) Call {
		w.expect(t, byNewKey(t, w, "pro"), "y")
		c := byNewKey(t, w, "pro")
		w.openKey(t, c.Subject, "GET /none")
		w.closed(t, "first", c)
		return c
	},
	"a route that only some plans open": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) {
			s.Plans = append(s.Plans, policy.Plan{Name: "closed", Limits: perMinute(9),
				Allow: patterns("GET /none")})
		})
		w.expect(t, byNewKey(t, w, "pro"), "y")
		return byNewKey(t, w, "pro")
	},
	"shared limits, caller not seen lately": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return byNewKey(t, w, "pro")
	},
	"shared limits, the call is covered by a leased share": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100_000)},
			Lease: policy.Duration(10 * time.Minute)})
		warm := byNewKey(t, w, "pro")
		for range 100 {
			if w.held() > 1 {
				break
			}
			w.expect(t, warm, "y")
		}
		return byNewKey(t, w, "pro")
	},
	"shared limits, caller not seen lately, the share is used up": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100_000)},
			Lease: policy.Duration(10 * time.Minute)})
		return byNewKey(t, w, "pro")
	},
	"unknown, revoked, expired or banned caller": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return call(must(apikey.Generate("test")))
	},
	"refused address": func(t *testing.T, w *world) Call {
		w.save(t, func(s *policy.Set) { s.Deny = []netip.Prefix{netip.MustParsePrefix(deniedRange)} })
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		return byNewKey(t, w, "pro").from("198.51.100.7")
	},
	"caller over its own limits": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := byNewKey(t, w, "free")
		w.expect(t, c, "y")
		return c
	},
	"caller allowed here in the last 10 s that may not call since": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		k, secret := w.create(t, "caller", "pro")
		w.expect(t, call(secret), "y")
		must(w.Revoke(t.Context(), k.ID, k.Version, byTest))
		return call(secret)
	},
	"denied by a shared limit, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(2)}})
		c := byNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"denied by a shared limit, caller not seen lately": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(1)}})
		return byNewKey(t, w, "pro")
	},
	"limits on a group, caller not seen lately": func(t *testing.T, w *world) Call {
		w.withGroup(t)
		w.expect(t, byNewKey(t, w, "pro"), "y") // so that the checker knows the Set
		return byNewKey(t, w, "pro")
	},
	"limits on a group, caller allowed here in the last 10 s": func(t *testing.T, w *world) Call {
		w.withGroup(t)
		c := byNewKey(t, w, "pro")
		w.expect(t, c, "y")
		return c
	},
	"limits on a group, caller allowed here in the last 10 s as one of another group": func(t *testing.T,
		w *world) Call {
		w.withGroup(t)
		k, secret := w.create(t, "caller", "pro")
		w.expect(t, call(secret), "y")
		w.regroup(t, k, "zebra")
		return call(secret)
	},
	"first check after a save, no shared limit applies": func(t *testing.T, w *world) Call {
		c := byNewKey(t, w, "pro")
		w.expect(t, c, "y")
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits = []limiter.Limit{hourly(2)} })
		return c
	},
	"first check after a save, shared limits": func(t *testing.T, w *world) Call {
		withGlobal(t, w, policy.Scope{Limits: []limiter.Limit{hourly(100)}})
		c := byNewKey(t, w, "pro")
		w.expect(t, c, "y")
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits = []limiter.Limit{hourly(2)} })
		return c
	},
}

var tripRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d) \|$`)

// The table in docs/architecture.md says how many round trips a check takes in each case.
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
			t.Errorf("docs/architecture.md: no test has the case %q", name)
		}
	}
	for name, prepare := range tripCases {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.plan(t, "free", hourly(1))
			w.plan(t, "pro", hourly(1000))
			client := w.counted()
			for range 2 { // so that the server has the scripts
				w.loadScripts(t)
			}
			c := prepare(t, w)
			client.trips.Store(0)
			_, _ = w.checker.Check(t.Context(), c, nil) // the answer is not what is tested
			if got := fmt.Sprint(client.trips.Load()); got != documented[name] {
				t.Errorf("%s round trips, docs/architecture.md says %q", got, documented[name])
			}
		})
	}
}

// loadScripts makes the server know the scripts of checks.
func (w *world) loadScripts(t *testing.T) {
	t.Helper()
	for _, s := range []*lua.Script{checkScript, wideScript, stepScript, leaseScript} {
		if err := w.client.Do(t.Context(),
			w.client.B().ScriptLoad().Script(s.Text()).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// between runs something between the round trips of one check: after the caller's own
// step, before that on shared limits.
func (w *world) between(t *testing.T, something func()) {
	t.Helper()
	w.loadScripts(t)
	client := w.counted()
	if err := w.checker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.trips.Store(0)
	client.before = func(trip int64) {
		if trip == 2 {
			something()
		}
	}
}

// A save between the two round trips makes the check start again, and what its caller's
// own step took is given back by the newer limits.
func TestSaveBetweenTheRoundTrips(t *testing.T) {
	for name, change := range map[string]func(*policy.Set){
		"of nothing else": func(*policy.Set) {},
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
			w.between(t, func() { saved = w.save(t, change) })
			c := w.expect(t, call(secret), "y")
			if c.SetVersion != saved.Version {
				t.Errorf("by version %d, want %d", c.SetVersion, saved.Version)
			}
			for _, l := range c.Limits {
				if want := l.Limit.Requests - saved.Routes[0].Cost; l.Remaining != want {
					t.Errorf("%s: %d remain of %s, want %d", l.Scope, l.Remaining, l.Limit, want)
				}
			}
		})
	}
}

// When the time of a call ends between the two round trips, or a shared limit cannot be
// read, what the caller's own step took is given back.
func TestSecondRoundTripFails(t *testing.T) {
	for _, lease := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprintf("leased for %s", lease), func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.plan(t, "pro", hourly(100))
			w.save(t, func(s *policy.Set) {
				s.Global = policy.Scope{Limits: []limiter.Limit{hourly(100)}, Lease: policy.Duration(lease)}
				s.Routes = []policy.Route{{Name: "all", Cost: 3, PerKey: []limiter.Limit{hourly(60)}}}
			})
			_, secret := w.create(t, "caller", "pro")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.between(t, cancel)
			if c, err := w.checker.Check(ctx, call(secret), nil); err == nil || c.Allowed {
				t.Fatalf("%s, %v; want an error", describe(c), err)
			}
			if got := scopes(w.expect(t, call(secret), "y")); got != "key:97 route:57 global:97" {
				t.Errorf("%s after a call that failed", got)
			}
		})
	}
}

// The commands that travel with a check leave with its first flush, whether or not a
// second one follows.
func TestPiggybackLeavesFirst(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "pro", hourly(100))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(100)} })
	_, secret := w.create(t, "caller", "pro")
	name, sent := keyspace.Of("sent", "m1"), false
	done := 0
	with := NewPiggyback(w.client,
		[]valkey.Completed{w.client.B().Hincrby().Key(name).Field("0").Increment(1).Build()},
		func(results []valkey.ValkeyResult) { done += len(results) })
	w.between(t, func() {
		sent = must(w.client.Do(t.Context(), w.client.B().Hexists().Key(name).Field("0").Build()).AsBool())
	})
	if c, err := w.checker.Check(t.Context(), call(secret), with); err != nil || !c.Allowed ||
		!sent || done != 1 {
		t.Errorf("%s, %v; sent first: %t, %d results", describe(c), err, sent, done)
	}
}

// A reservation takes in the same order as a check.
func TestReserveTakesInOrder(t *testing.T) {
	server := valkeytest.Start(t)
	w := open(t, server)
	w.plan(t, "free", hourly(10))
	w.save(t, func(s *policy.Set) { s.Global.Limits = []limiter.Limit{hourly(100)} })
	k, _ := w.create(t, "caller", "free")
	w.loadScripts(t)
	client := w.counted()
	reserve := func(cost, trips int64, want string) {
		t.Helper()
		client.trips.Store(0)
		c, err := w.checker.Reserve(t.Context(), k.ID, "", cost)
		if got := scopes(c); err != nil || got != want || client.trips.Load() != trips {
			t.Errorf("cost %d: %s in %d round trips, %v; want %s in %d", cost, got, client.trips.Load(),
				err, want, trips)
		}
	}
	if err := w.checker.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	reserve(4, 3, "key:6 global:96") // with one to read the record
	reserve(4, 2, "key:2 global:92")
	monitor := valkeytest.StartMonitor(t, server)
	reserve(4, 2, "key:2")
	for _, command := range monitor.Commands() {
		if strings.Contains(command, keyspace.State(policy.GlobalID)) {
			t.Errorf("the server ran %s", command)
		}
	}
}

// Explain asks shared limits only for a call that the caller's own limits allow.
func TestExplainAsksInOrder(t *testing.T) {
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
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
		asked := strings.Contains(strings.Join(monitor.Commands(), "\n"), keyspace.State(policy.GlobalID))
		if asked != strings.Contains(c.want, "global") {
			t.Errorf("%s: the limit of all calls was asked: %t", c.want, asked)
		}
	}
}
