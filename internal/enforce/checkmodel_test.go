package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
)

// history makes random checks and edits on Checkers and on the oracle, and compares every
// result.
type history struct {
	*world
	*oracle
	t        *rapid.T
	checkers []*Checker
	secrets  []apikey.Secret
	log      []string
	checks   int
}

var (
	historyPaths     = []string{"/a", "/b", "/elsewhere"}
	historyAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"),
		netip.MustParseAddr("2001:db8::9")}
	historyModes = rapid.SampledFrom([]policy.Mode{"", policy.Enforce, policy.Enforce, policy.Enforce,
		policy.Shadow})
	historyWindows = rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, time.Hour})
)

// maxCost is the highest cost of a call. A save refuses limits below a route's cost.
const maxCost = 3

func drawLimits(t *rapid.T) []limiter.Limit {
	limits := make([]limiter.Limit, rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "limits"))
	for i := range limits {
		limits[i] = limiter.Limit{Requests: rapid.Int64Range(maxCost, 9).Draw(t, "requests"),
			Window: historyWindows.Draw(t, "window")}
		limits[i].Algorithm = rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm")
		if limits[i].Algorithm == limiter.Log {
			limits[i].CountDenied = rapid.IntRange(0, 4).Draw(t, "count denied") == 0
		}
		limits[i].Shadow = rapid.IntRange(0, 3).Draw(t, "shadow") == 0
	}
	return limits
}

// drawOptional draws limits in odds out of 10 cases, and none otherwise.
func drawOptional(t *rapid.T, odds int) []limiter.Limit {
	if rapid.IntRange(1, 10).Draw(t, "any") > odds {
		return nil
	}
	return drawLimits(t)
}

// drawShared draws limits that callers share in odds out of 10 cases, and none otherwise.
// They must not count denied calls.
func drawShared(t *rapid.T, odds int) []limiter.Limit {
	limits := drawOptional(t, odds)
	for i := range limits {
		limits[i].CountDenied = false
	}
	return limits
}

// drawAllow draws a list of routes, in most cases none.
func drawAllow(t *rapid.T) []route.Pattern {
	n := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2}).Draw(t, "routes opened")
	var list []route.Pattern
	for _, path := range historyPaths[:n] {
		list = append(list, route.Pattern{Path: path})
	}
	return list
}

func drawRoute(t *rapid.T, path string) policy.Route {
	return policy.Route{
		Shared: drawShared(t, 4), Name: "route " + path, Pattern: route.Pattern{Path: path},
		Cost: rapid.SampledFrom([]int64{0, 1, 1, 2, 3}).Draw(t, "cost"),
		Mode: historyModes.Draw(t, "route's mode"), PerKey: drawOptional(t, 6), PerIP: drawShared(t, 3),
	}
}

// editSet changes one part of the policy set, or all of them.
func (h *history) editSet(s *policy.Set) {
	t := h.t
	which := rapid.IntRange(0, 12).Draw(t, "which")
	at := rapid.IntRange(0, 1).Draw(t, "at")
	all := which == 8
	if p := &s.Plans[at]; which <= 1 || all {
		p.Limits = drawLimits(t)
	}
	if which == 2 || all {
		s.Plans[at].Mode = historyModes.Draw(t, "mode")
	}
	if which == 9 || all {
		s.Plans[at].PerGroup = drawShared(t, 7)
	}
	if which >= 11 || all {
		s.GroupOverrides = nil
		if rapid.IntRange(0, 3).Draw(t, "overridden") > 0 {
			s.GroupOverrides = map[string]policy.Override{"acme": h.drawOverride()}
		}
	}
	if which == 10 || all {
		s.Plans[at].Allow = drawAllow(t)
	}
	if which == 4 || all {
		s.PerIP = policy.Scope{Limits: drawShared(t, 7), Mode: historyModes.Draw(t, "mode")}
	}
	if which == 5 || all {
		s.Global = policy.Scope{Limits: drawShared(t, 7), Mode: historyModes.Draw(t, "mode")}
	}
	if which == 6 || all {
		s.Routes[at] = drawRoute(t, historyPaths[at])
	}
	if which == 7 || all {
		s.Exempt = nil
		if rapid.IntRange(0, 2).Draw(t, "exempt") == 0 {
			s.Exempt = []netip.Prefix{netip.PrefixFrom(historyAddresses[2], 128)}
		}
	}
}

func (h *history) saveSet(change func(*policy.Set)) {
	set := must(h.Set(h.t.Context()))
	change(set)
	saved, err := h.SaveSet(h.t.Context(), *set, byTest)
	if err != nil {
		h.failf("save: %v", err)
	}
	h.set = saved
	h.logf("saved %s", must(json.Marshal(saved)))
}

// drawLater draws a time of the server to come.
func (h *history) drawLater() time.Time {
	return h.now.Add(rapid.SampledFrom([]time.Duration{-time.Second, time.Microsecond, time.Minute,
		5 * time.Minute}).Draw(h.t, "later")).UTC()
}

func (h *history) drawOverride() policy.Override {
	o := policy.Override{Limits: drawOptional(h.t, 8), Until: h.drawLater(), Reason: "history"}
	if rapid.Bool().Draw(h.t, "without end") {
		o.Until = time.Time{}
	}
	return o
}

// editKey changes one field of a key.
func (h *history) editKey() {
	t := h.t
	id := h.secrets[rapid.IntRange(0, len(h.secrets)-1).Draw(t, "key")].ID()
	later := h.drawLater()
	change := func(k *policy.Key) {
		switch rapid.IntRange(0, 9).Draw(t, "edit") {
		case 0:
			k.Plan = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "plan")
		case 1:
			k.Override = nil
		case 2:
			k.Banned = later
		case 3:
			k.Expires = later.Add(10 * time.Minute)
		case 4:
			k.Status = rapid.SampledFrom([]policy.Status{policy.Active, policy.Active, policy.Active,
				policy.Revoked}).Draw(t, "status")
		case 5:
			k.Allow = drawAllow(t)
		case 6, 7:
			k.Group = rapid.SampledFrom([]string{"", "acme", "acme", "zebra"}).Draw(t, "group")
		default:
			o := h.drawOverride()
			k.Override = &o
		}
	}
	k, err := h.Update(t.Context(), id, h.keys[id].Version, "key.edit", byTest, change)
	if err != nil {
		h.failf("update: %v", err)
	}
	h.keys[id] = k
	h.logf("edited %s", must(json.Marshal(k)))
}

// advance moves the clock on. Some steps end exactly when a ban, key or override ends, or
// a microsecond before.
func (h *history) advance() {
	t := h.t
	step := historyWindows.Draw(t, "time")
	switch rapid.IntRange(0, 7).Draw(t, "pass") {
	case 0:
	case 1:
		step -= time.Microsecond
	case 2:
		step = h.untilNextEnd(step)
	case 3, 4: // shorter than most windows
		step = time.Duration(rapid.Int64Range(1, 20_000_000).Draw(t, "microseconds")) * time.Microsecond
	case 5: // a few milliseconds
		step = time.Duration(rapid.Int64Range(1, 10_000).Draw(t, "microseconds")) * time.Microsecond
	default:
		step = time.Duration(rapid.Int64Range(1, step.Microseconds()/3).Draw(t,
			"microseconds")) * time.Microsecond
	}
	h.now = h.now.Add(step)
	h.setClock(t, h.now)
	h.expire()
}

// expire forgets the states that Valkey has deleted by now.
func (h *history) expire() {
	for name, state := range h.states {
		expiry, err := h.client.Do(h.t.Context(), h.client.B().Get().Key("expiry:"+name).Build()).AsInt64()
		if err == nil && h.now.UnixMicro() >= expiry {
			state.steps = nil
		}
	}
}

// untilNextEnd returns the time until the next end of a ban, a key or an override, or a
// microsecond less; at most step.
func (h *history) untilNextEnd(step time.Duration) time.Duration {
	for _, k := range h.keys {
		ends := []time.Time{k.Banned, k.Expires, h.set.GroupOverrides[k.Group].Until}
		if k.Override != nil {
			ends = append(ends, k.Override.Until)
		}
		for _, end := range ends {
			if left := end.Sub(h.now); left > time.Microsecond && left < step {
				step = left - time.Duration(rapid.IntRange(0, 1).Draw(h.t, "early"))*time.Microsecond
			}
		}
	}
	return step
}

// checkOnce checks one call and compares the result with the oracle's.
func (h *history) checkOnce() {
	t := h.t
	secret := h.secrets[rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "caller")]
	address := historyAddresses[rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "address")]
	path := historyPaths[rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "path")]
	h.checks++
	h.env = rapid.IntRange(0, len(h.checkers)-1).Draw(t, "checker") // their policy sets differ in age
	h.checker = h.checkers[h.env]
	c := call(secret).from(address.String()).to("GET", path)
	closed := must(compiled.New(h.set)).ClosedPlans(c.Route)
	lists := h.checker.access.find(secret.ID()) != nil || len(closed) > 0
	want := h.oracle.check(secret.ID(), address, path, lists)
	got, err := h.checker.Check(t.Context(), c, nil)
	h.logf("%s %s from %s at %d: %s", secret.ID(), path, address, h.now.UnixMicro(), want)
	if errors.Is(err, policy.ErrUnknownKey) != want.unknown ||
		errors.Is(err, policy.ErrRefused) != want.refused || err != nil && !want.unknown && !want.refused {
		h.failf("got %s, %v", describe(got), err)
	}
	if want.unknown || want.refused {
		if got.Allowed {
			h.failf("a caller that is unknown or refused is allowed")
		}
		return
	}
	if got.Allowed != want.allowed || got.WouldAllow != want.wouldAllow ||
		!got.BannedUntil.Equal(want.banned) ||
		fmt.Sprint(got.Limits) != fmt.Sprint(want.limits) ||
		got.SetVersion != h.set.Version ||
		got.KeyVersion != h.keys[secret.ID()].Version || got.Group != h.keys[secret.ID()].Group {
		h.failf("got %s", verdict{false, false, got.Allowed, got.WouldAllow, got.BannedUntil, got.Limits})
	}
}

// checkStates compares every state in Valkey with its model.
func (h *history) checkStates() {
	for _, name := range h.stateNames() {
		state := h.states[name]
		if len(state.limits) == 0 { // an override that switches limits off
			continue
		}
		program, err := limiter.Compile(state.limits, h.now)
		if err != nil {
			h.t.Fatal(err)
		}
		reply, err := stepScript.Do(h.t.Context(), h.checker.client, []string{name, "no copy"},
			stepArgs(program, 0, time.Time{}, 0)).AsBytes()
		if err != nil {
			h.t.Fatal(err)
		}
		got, err := limiter.ParseReply(reply, state.limits)
		want := state.model().Peek(h.now, state.limits)
		if err != nil ||
			fmt.Sprint(got) != fmt.Sprint(want) {
			h.failf("state %s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) failf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\n%s", strings.Join(h.log, "\n"), fmt.Sprintf(format, args...))
}

// setUp empties the server and creates two plans, two routes and three keys.
func (h *history) setUp() {
	ctx, t := h.t.Context(), h.t
	if err := h.client.Do(ctx, h.client.B().Flushall().Sync().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	h.setClock(t, h.now)
	h.saveSet(func(s *policy.Set) {
		s.Plans = []policy.Plan{
			{Name: "one", Limits: drawLimits(t), PerGroup: drawShared(t, 7), Allow: drawAllow(t)},
			{Name: "two", Limits: drawLimits(t)}}
		s.Routes = []policy.Route{drawRoute(t, "/a"), drawRoute(t, "/b")}
	})
	for i, plan := range []string{"one", "two", "one"} {
		n := policy.NewKey{Name: "caller", Env: "test", Plan: plan}
		if i != 1 && rapid.Bool().Draw(t, "in a group") {
			n.Group = "acme"
		}
		k, secret, err := h.Create(ctx, n, byTest)
		if err != nil {
			t.Fatal(err)
		}
		h.secrets, h.keys[k.ID] = append(h.secrets, secret), k
	}
}

// In random histories of checks, edits and passing time, every result equals the
// oracle's. This covers all scopes and modes, overrides, groups and
// access lists. In the end every state equals its model, so exactly what was taken is
// given back.
func TestChecksEqualTheOracle(t *testing.T) {
	onVirtualTime(t)
	w := open(t, valkeytest.Start(t))
	histories, checks, cases := 0, 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{world: &world{Store: registry.NewStore(w.client, testPepper), client: w.client}, t: rt}
		for range 3 {
			h.checkers = append(h.checkers, NewChecker(w.client, testPepper))
		}
		h.checker = h.checkers[0]
		h.oracle = newOracle(h.world)
		h.skew = make([]time.Duration, len(h.checkers))
		h.Now = func() time.Time { return h.now }
		for i, c := range h.checkers {
			c.Now = func() time.Time { return h.now.Add(h.skew[i]) }
		}
		h.setUp()
		for range rapid.SampledFrom([]int{5, 20, 60, 100}).Draw(rt, "events") {
			switch rapid.IntRange(0, 19).Draw(rt, "event") {
			case 0:
				h.saveSet(h.editSet)
			case 1, 2:
				h.editKey()
			case 3, 4, 5:
				h.advance()
			case 6:
				h.skew[rapid.IntRange(0, len(h.skew)-1).Draw(rt, "frozen")] += time.Duration(
					rapid.Int64Range(0, 20_000).Draw(rt, "for")) * time.Millisecond
			default:
				h.checkOnce()
			}
		}
		h.checkStates()
		histories, checks = histories+1, checks+h.checks
		for name, n := range h.cases {
			cases[name] += n
		}
	})
	t.Logf("%d histories, %d checks; rare cases: %v", histories, checks, cases)
}
