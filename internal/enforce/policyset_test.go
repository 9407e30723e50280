package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// forceSet stores and distributes a policy set that SaveSet would refuse, as another
// version of Tidegate may. damage changes its JSON.
func (w *world) forceSet(t *testing.T, change func(*policy.Set),
	damage func(text string) string) *policy.Set {
	t.Helper()
	set, err := w.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change(set)
	set.Version++
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	record := valkey.BinaryString(policyset.EncodeSet(set.Version, []byte(damage(string(text)))))
	if err := w.client.Do(t.Context(),
		w.client.B().Set().Key(policyset.SetKey).Value(record).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := w.Distribute(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return set
}

// If the policy set in force is unusable, a Checker keeps the routes of the last good
// one, and applies the plans of the one in force. It uses the next good set again. A
// Checker without a last good set returns ErrSet.
func TestKeepsLastGoodSet(t *testing.T) {
	inZone := func(zone string) []limiter.Limit {
		return []limiter.Limit{{Requests: 9, Algorithm: limiter.FixedWindow,
			Calendar: limiter.Day, Zone: zone}}
	}
	unknownZone := func(text string) string {
		return strings.Replace(text, "Europe/Berlin", "Europe/Atlantis", 1)
	}
	for name, damage := range map[string]func(string) string{"unknown zone": unknownZone,
		"unreadable": func(text string) string { return text[1:] }} {
		t.Run(name, func(t *testing.T) {
			onEveryServer(t, func(t *testing.T, w *world) {
				w.plan(t, "free", perMinute(10)...)
				w.save(t, func(s *policy.Set) {
					s.Routes = []policy.Route{{Name: "orders", Cost: 2, Shared: inZone("Europe/Berlin")}}
				})
				_, secret := w.create(t, "caller", "free")
				if c := w.check(t, call(secret)); c.Rule != "orders" || w.checker.Problem() != nil {
					t.Fatalf("good set: got %+v, problem %v", c, w.checker.Problem())
				}
				forced := w.forceSet(t, func(s *policy.Set) {
					s.Plans[0].Limits[0].Requests, s.Routes[0].Name = 6, "renamed"
				}, damage)
				for range 2 {
					if c := w.check(t, call(secret)); !c.Allowed || c.Rule != "orders" ||
						c.SetVersion != forced.Version || c.Limits[0].Limit.Requests != 6 {
						t.Errorf("unusable set: got %+v, want the former route and the newer limit", c)
					}
				}
				if c := w.check(t, call(secret)); c.Allowed {
					t.Errorf("over the limit of the newer plan: got %+v, want a denial", c)
				}
				if err := w.checker.Problem(); !errors.Is(err, ErrSet) {
					t.Errorf("got problem %v, want ErrSet", err)
				}
				fresh := NewChecker(w.client, testPepper)
				if c, err := fresh.Check(t.Context(), call(secret), nil); !errors.Is(err,
					ErrSet) || c.Allowed {
					t.Errorf("without a last good set: got %+v, %v, want ErrSet", c, err)
				}
				w.repair(t, forced)
				if c := w.check(t, call(secret)); c.Rule != "renamed" || w.checker.Problem() != nil {
					t.Errorf("after the repair: got %+v, problem %v", c, w.checker.Problem())
				}
			})
		})
	}
}

// repair saves a good policy set, with the version after the forced one.
func (w *world) repair(t *testing.T, forced *policy.Set) {
	t.Helper()
	text, err := json.Marshal(forced)
	if err != nil {
		t.Fatal(err)
	}
	record := valkey.BinaryString(policyset.EncodeSet(forced.Version, text))
	if err := w.client.Do(t.Context(),
		w.client.B().Set().Key(policyset.SetKey).Value(record).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	w.save(t, func(*policy.Set) {})
}

// A refusal is returned only if Valkey confirms that the policy set is the newest. If
// Valkey cannot, Check returns that error.
func TestRefusalNeedsValkey(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.save(t, func(s *policy.Set) { s.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
		refused := Call{Kind: policy.Address, Subject: "AAAAAAAAAAAAAAAAAAAAAA",
			Address: netip.MustParseAddr("192.0.2.1")}
		checker := NewChecker(w.client, testPepper)
		if _, err := checker.Check(t.Context(), refused, nil); !errors.Is(err, policy.ErrRefused) {
			t.Errorf("got %v, want ErrRefused", err)
		}
		checker.client.Close()
		if _, err := checker.Check(t.Context(), refused, nil); err == nil ||
			errors.Is(err, policy.ErrRefused) {
			t.Errorf("without Valkey: got %v, want another error than ErrRefused", err)
		}
	})
}

// mirrorLossClient calls lose before it reads a mirror.
type mirrorLossClient struct {
	valkey.Client
	lose func() // makes the server lose all data
}

func (l *mirrorLossClient) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	if words := command.Commands(); words[0] == "GET" && slices.Contains(policyset.MirrorKeys[:], words[1]) {
		l.lose()
	}
	return l.Client.Do(ctx, command)
}

// If a mirror is lost between the reads of its version and its text, Valkey counts as
// unavailable: no decision was made, and the plan's Degraded applies to a known caller.
func TestMirrorLostDuringRead(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(9)...)
	k, secret := w.create(t, "acme", "free")
	w.expect(t, call(secret), "y")
	lost := false
	w.checker.client = &mirrorLossClient{w.checker.client, func() {
		lost = true
		if err := w.client.Do(t.Context(), w.client.B().Flushall().Build()).Error(); err != nil {
			t.Error(err)
		}
	}}
	del := w.client.B().Del().Key(policyset.SetKey).Key(policyset.CopyKey(keyspace.BucketOf(k.ID))).Build()
	if err := w.client.Do(t.Context(), del).Error(); err != nil {
		t.Fatal(err)
	}
	w.checker.set.Store(must(compiled.New(&policy.Set{Version: 0}))) // older than the mirror
	if _, err := w.checker.Check(t.Context(), call(secret), nil); !lost || !store.Unavailable(err) {
		t.Errorf("got %v with the mirror lost: %t, want Valkey unavailable", err, lost)
	}
}

// RouteMatch and RuleLimits return, without Valkey, the rule and the limits of rules that
// Check applies to a call.
func TestRouteMatch(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "free", perMinute(9)...)
		_, secret := w.create(t, "caller", "free")
		c := call(secret).from("192.0.2.1")
		if _, err := w.checker.RouteMatch(c); err == nil {
			t.Error("got a match before a policy set was read, want an error")
		}
		w.save(t, func(s *policy.Set) {
			s.PerIP.Limits, s.Global = perMinute(8), policy.Scope{Limits: perMinute(7), Mode: policy.Shadow}
			s.Routes = []policy.Route{
				{Name: "all", Cost: 2, PerKey: perMinute(6), Shared: perMinute(5)},
				{Name: "free", Cost: 0, Pattern: route.Pattern{Path: "/health"}, PerKey: perMinute(4)},
			}
			s.Deny = append(s.Deny, c.from("192.0.2.9").Network)
			s.Exempt = append(s.Exempt, c.from("192.0.2.8").Network)
		})
		w.check(t, c)
		match, err := w.checker.RouteMatch(c)
		if err != nil || match.Rule != "all" || match.Cost != 2 ||
			match.SetVersion != w.checker.Set().Version {
			t.Fatalf("got %+v, %v, want rule all at cost 2", match, err)
		}
		result := w.check(t, c)
		limits := w.checker.RuleLimits(c)
		for i, b := range limits {
			if got := result.Limits[i+1]; got.Scope != b.Scope || got.Mode != b.Mode ||
				got.Limit != b.Limits[0] {
				t.Errorf("RuleLimits has %+v where Check has %+v", b, got)
			}
		}
		if len(limits) != 4 || len(result.Limits) != 5 {
			t.Errorf("got %d lists of rule limits and %d limits in all, want 4 and 5", len(limits),
				len(result.Limits))
		}
		for name, unlimited := range map[string]Call{"free": c.to("GET", "/health"),
			"exempt": c.from("192.0.2.8")} {
			if match, err := w.checker.RouteMatch(unlimited); err != nil || match.Cost != 0 ||
				len(w.checker.RuleLimits(unlimited)) != 0 {
				t.Errorf("%s: got %+v, %v, want cost 0 and no limits", name, match, err)
			}
		}
		if _, err := w.checker.RouteMatch(c.from("192.0.2.9")); !errors.Is(err, policy.ErrRefused) {
			t.Errorf("denied address: got %v, want ErrRefused", err)
		}
	})
}

// setReads counts how often a client reads the stored set.
type setReads struct {
	valkey.Client
	count int
}

func (c *setReads) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	if slices.Contains(command.Commands(), policyset.SetKey) {
		c.count++
	}
	return c.Client.Do(ctx, command)
}

// Calls in a bucket that lost its copy of the plans are not decided, and read the whole set
// at most once a second. The first call after the copy is back is decided, and so is one
// under a newer set.
func TestLostCopy(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perMinute(100)...)
	k, secret := w.create(t, "acme", "free")
	w.expect(t, call(secret), "y")
	now := time.Now()
	w.checker.Now = func() time.Time { return now }
	reads := &setReads{Client: w.checker.client}
	w.checker.client = reads
	lose := func() {
		del := w.client.B().Del().Key(policyset.CopyKey(keyspace.BucketOf(k.ID))).Build()
		if err := w.client.Do(t.Context(), del).Error(); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	stale := func(times int) {
		t.Helper()
		for range times {
			if _, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err, ErrStale) {
				t.Fatalf("without the copy: got %v, want ErrStale", err)
			}
		}
	}
	stale(20)
	first := reads.count
	if now = now.Add(copyPause); first == 0 {
		t.Error("the set was not read")
	}
	if stale(20); reads.count != 2*first {
		t.Errorf("got %d reads in the second second, want %d as in the first", reads.count-first, first)
	}
	w.save(t, func(s *policy.Set) { s.Plans[0].Limits = perMinute(50) })
	if c := w.expect(t, call(secret), "y"); c.Limits[0].Limit.Requests != 50 {
		t.Errorf("after a save: got limit %d, want 50", c.Limits[0].Limit.Requests)
	}
}
