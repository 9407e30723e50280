package enforce

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

func patternsOf(t testing.TB, texts ...string) []route.Pattern {
	t.Helper()
	all := make([]route.Pattern, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = route.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Every kind of limit holds for whom it says and on the calls that it names.
func TestLimitsHold(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.save(func(s *policy.Set) {
			s.Plans = []policy.Plan{
				{Name: "free", Limits: parseAll(t, []string{"9 per hour", "2 per hour, on search",
					"3 calls per hour, on chat", "10 tokens per hour",
					"4 per hour, on items, each caller and {item}",
					"12 per hour, each group", "2 per hour, on items, each {item}, shadow"})},
				{Name: "pro", Limits: parseAll(t, []string{"5 per hour, together"})},
			}
			s.Limits = parseAll(t, []string{"30 per hour, together", "25 per hour, each address"})
			s.Routes = []limits.Route{
				{Name: "search", Match: patternsOf(t, "GET /search", "GET /find/{q}")},
				{Name: "chat", Match: patternsOf(t, "POST /chat"),
					Cost: limits.Costs{Units: map[string]int64{limits.Cost: 2, "tokens": 4}}},
				{Name: "items", Match: patternsOf(t, "GET /items/{item}")},
				{Name: "health", Match: patternsOf(t, "GET /health"), Cost: limits.Costs{Free: true}},
			}
		})
		inGroup := func(k *policy.Key) { k.Group = "acme" }
		w.key("one", "free", inGroup)
		w.key("two", "free", inGroup)
		w.key("three", "free")
		w.key("four", "pro")
		w.key("five", "pro")
		w.passes("one", "GET /search", 3, 2)
		w.passes("one", "GET /find/x", 1, 0) // one count for both patterns
		w.passes("one", "POST /chat", 3, 2)  // 4 tokens each
		w.passes("one", "GET /other", 9, 3)  // 9 in all
		w.passes("one", "GET /health", 20, 20)
		w.passes("two", "GET /other", 9, 3) // the group's 12
		w.passes("three", "GET /items/a", 9, 4)
		w.passes("three", "GET /items/A", 1, 0) // letters are folded
		w.passes("three", "GET /items/b", 1, 1)
		w.passes("four", "GET /x", 3, 3)
		w.passes("five", "GET /x", 4, 2)        // 5 together
		w.passes("three", "GET /items/c", 9, 3) // 25 of the address
		w.key("six", "free")
		w.passes("six", "GET /y", 1, 0)
	})
}

// A call that a shared limit denies is in no count.
func TestDeniedCallsLeaveNoTrace(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "5 per hour", "5 per day, token bucket", "2 per hour, together",
		"3 per hour, on POST /a, each group")
	w.key("one", "free", func(k *policy.Key) { k.Group = "acme" })
	w.passes("one", "POST /a", 6, 2)
	for name, states := range map[string][]LimitState{
		"key":   must(w.Usage(t.Context(), &w.policy, []policy.Key{w.keys["one"]}))(t)[0],
		"group": must(w.GroupUsage(t.Context(), &w.policy, "acme", w.policy.Plans))(t)} {
		for _, l := range states {
			if l.Who != limits.Together && l.Used() != 2 {
				t.Errorf("%s: %s counts %d, want 2", name, l.Limit, l.Used())
			}
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// An override takes the place of limits with the same calls and unit; what it replaces goes
// on counting.
func TestOverrides(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "3 per hour", "2 per hour, on POST /a")
	override := func(texts ...string) func(*policy.Key) {
		return func(k *policy.Key) {
			k.Override = &policy.Override{Limits: parseAll(t, texts), Reason: "a test"}
		}
	}
	w.key("one", "free")
	w.passes("one", "GET /x", 4, 3)
	w.key("one", "free", override("6 per hour"))
	w.passes("one", "GET /x", 9, 3)
	w.passes("one", "POST /a", 1, 0)
	w.key("one", "free", override("no limit"))
	w.passes("one", "POST /a", 4, 2)
	w.key("one", "free", override())
	w.passes("one", "POST /a", 4, 4)
	w.key("one", "free", func(k *policy.Key) { k.Override = nil })
	w.passes("one", "GET /x", 1, 0)
	w.plan("free", "13 per hour", "2 per hour, on POST /a")
	w.passes("one", "GET /x", 9, 1) // 12 passed before
}

// Edits act on the next check: of the policy, the plan, the key, its reset.
func TestEditsActOnTheNextCheck(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "2 per hour")
	w.plan("pro", "4 per hour")
	w.key("one", "free")
	w.passes("one", "GET /x", 3, 2)
	w.plan("free", "3 per hour")
	w.passes("one", "GET /x", 3, 1)
	w.key("one", "pro")
	w.passes("one", "GET /x", 3, 1)
	w.key("one", "pro", func(k *policy.Key) { k.Reset = w.serverNow() })
	w.passes("one", "GET /x", 5, 4)
	w.key("one", "pro", func(k *policy.Key) { k.Status = policy.Revoked })
	if _, err := w.Check(t.Context(), w.callOf("one", "GET /x")); !errors.Is(err, policy.ErrUnknownKey) {
		t.Errorf("a revoked key: %v", err)
	}
}

// A caller that may not call learns the cause, and takes nothing.
func TestRefusals(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.save(func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: parseAll(t, []string{"5 per hour"})},
			{Name: "closed", Opens: patternsOf(t, "GET /open")}}
		s.Routes = []limits.Route{{Name: "a", Match: patternsOf(t, "GET /a/{x}")}}
		s.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		s.Limits = parseAll(t, []string{"9 per hour, on a, each address"})
	})
	restore := func(k *policy.Key) { k.Expires, k.Opens, k.Status = time.Time{}, nil, policy.Active }
	w.key("one", "free")
	for name, c := range map[string]struct {
		change func(*policy.Key)
		call   func(*Call)
		cause  cause.Cause
	}{
		"another secret": {call: func(c *Call) {
			secret, err := apikey.Renew("test", c.Subject)
			if err != nil {
				t.Fatal(err)
			}
			c.Secret = secret
		}, cause: cause.Unknown},
		"unknown key": {call: func(c *Call) { c.Subject = "000000000000" }, cause: cause.Unknown},
		"revoked":     {change: func(k *policy.Key) { k.Status = policy.Revoked }, cause: cause.Revoked},
		"expired":     {change: func(k *policy.Key) { k.Expires = w.serverNow() }, cause: cause.Expired},
		"closed route of the key": {change: func(k *policy.Key) { k.Opens = patternsOf(t, "GET /open") },
			cause: cause.Access},
		"closed route of the plan": {change: func(k *policy.Key) { k.PlanNumber = 2 }, cause: cause.Access},
		"address": {call: func(c *Call) { c.Address = netip.MustParseAddr("198.51.100.9") },
			cause: cause.Address},
		"no address": {call: func(c *Call) { c.Address = netip.Addr{} }, cause: cause.Address},
		"no address, two readings": {call: func(c *Call) {
			c.Address, c.Route.Path = netip.Addr{},
				"/a/..%2fb"
		}, cause: cause.Malformed},
		"two readings": {call: func(c *Call) { c.Route.Path = "/a/..%2fb" },
			cause: cause.Malformed},
		"token without a plan": {call: func(c *Call) { c.Kind, c.Subject = policy.Token, "jwt-1" },
			cause: cause.Access},
	} {
		t.Run(name, func(t *testing.T) {
			w.key("one", "free", restore)
			if c.change != nil {
				w.key("one", "free", c.change)
			}
			call := w.callOf("one", "GET /x")
			if c.call != nil {
				c.call(&call)
			}
			for range 2 { // the second time the record is known
				_, err := w.Check(t.Context(), call)
				if refused := new(policy.RefusedError); !errors.As(err, &refused) ||
					refused.Cause != c.cause {
					t.Errorf("got %v, want %s", err, c.cause)
				}
			}
		})
	}
	w.key("one", "free", restore)
	w.passes("one", "GET /x", 6, 5)
}

// Bans, grace periods and overrides begin and end by the server's clock, without an edit.
func TestTimesEndWithoutAnEdit(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "1 per hour")
	until := w.serverNow().Add(300 * time.Millisecond)
	w.key("one", "free", func(k *policy.Key) {
		k.Override = &policy.Override{Limits: parseAll(t, []string{"9 per hour"}), Until: until,
			Reason: "a test"}
	})
	w.passes("one", "GET /x", 3, 3)
	w.key("two", "free", func(k *policy.Key) { k.Banned = until })
	if r := w.check("two", "GET /x"); r.Allowed || r.BannedUntil.IsZero() || r.RetryAfter() <= 0 {
		t.Errorf("a banned key: %+v", r)
	}
	k := w.key("three", "free", func(k *policy.Key) { k.Grace = until })
	w.put(k, policyset.Secrets{Previous: pepper.Hash(w.secrets["three"])})
	if r := w.check("three", "GET /x"); !r.Allowed || !r.OldSecret {
		t.Errorf("an old secret in its grace: %+v", r)
	}
	waiting.Until(t, "the end of the times", func() bool { return !w.serverNow().Before(until) })
	w.passes("one", "GET /x", 1, 0)
	w.passes("two", "GET /x", 2, 1)
	_, err := w.Check(t.Context(), w.callOf("three", "GET /x"))
	if refused := new(policy.RefusedError); !errors.As(err, &refused) || refused.Cause != cause.OldSecret {
		t.Errorf("an old secret after its grace: %v", err)
	}
}

// A settlement moves the caller's counts to the real costs, its group's by ten times at
// most, and no others; once.
func TestSettle(t *testing.T) {
	storetest.OnEveryServer(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.save(func(s *policy.Set) {
			s.Plans = []policy.Plan{{Name: "free", Limits: parseAll(t,
				[]string{"100 per hour", "50 per hour, on chat",
					"1,000 tokens per hour", "20 calls per hour", "1,000 tokens per hour, each group",
					"1,000 tokens per hour, together", "1,000 tokens per hour, counter"})}}
			s.Routes = []limits.Route{{Name: "chat", Match: patternsOf(t, "POST /chat"), Settle: true,
				Cost: limits.Costs{Units: map[string]int64{limits.Cost: 5, "tokens": 20}}}}
		})
		w.key("one", "free", func(k *policy.Key) { k.Group = "acme" })
		used := func() (all []int64) {
			for _, l := range must(w.Usage(t.Context(), &w.policy, []policy.Key{w.keys["one"]}))(t)[0] {
				all = append(all, l.Used()+l.Owed)
			}
			return all
		}
		for _, c := range []struct {
			actual  map[string]int64
			used    []int64 // own: calls, chat, tokens, number of calls, counter; the group's tokens
			partial bool
		}{
			{map[string]int64{limits.Cost: 5}, []int64{5, 5, 20, 1, 20, 20}, false},
			{map[string]int64{limits.Cost: 0, "tokens": 0}, []int64{5, 5, 20, 2, 20, 20}, false},
			{map[string]int64{"tokens": 90}, []int64{10, 10, 110, 3, 110, 110}, false},
			{map[string]int64{"tokens": 900}, []int64{15, 15, 1010, 4, 1010, 310}, false},
		} {
			r := w.check("one", "POST /chat")
			if !r.Allowed || r.Settlement == "" {
				t.Fatalf("got %+v", r)
			}
			s, err := w.Settle(t.Context(), r.Settlement, limits.Costs{Units: c.actual})
			if err != nil || s.Partial != c.partial || s.Reserved["tokens"] != 20 || s.Route != "chat" {
				t.Fatalf("settle %v: %+v, %v", c.actual, s, err)
			}
			if got := used(); !slices.Equal(got, c.used) {
				t.Errorf("after %v: used %v, want %v", c.actual, got, c.used)
			}
			_, err = w.Settle(t.Context(), r.Settlement, limits.Costs{Units: c.actual})
			if !errors.Is(err, ErrSettled) {
				t.Errorf("settled twice: %v", err)
			}
		}
		if r := w.check("one", "POST /chat"); r.Allowed || r.Settlement != "" {
			t.Errorf("a caller that owes: %+v", r)
		}
	})
}

// A set with a time zone that this build does not know cannot be used, wherever the zone is.
func TestUnknownZones(t *testing.T) {
	day := parseAll(t, []string{"10 per calendar day (Europe/Berlin), each group"})
	day[0].Zone = "Mars/Utopia"
	for i, s := range []*policy.Set{{Limits: day}, {Plans: []policy.Plan{{Limits: day}}},
		{GroupOverrides: map[string]policy.Override{"acme": {Limits: day}}}} {
		if _, err := compile(s); err == nil {
			t.Errorf("set %d is used", i)
		}
	}
}

// The text of a settlement is at most MaxSettlement long. With 16 logs, the most that a call
// takes from, it is, unless their units have very long names.
func TestSizeOfSettlements(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	for length, fits := range map[int]bool{8: true, limits.MaxNameLen: false} {
		units, texts := map[string]int64{}, []string{}
		for i := range limits.MaxUnits {
			unit := strings.Repeat("u", length-1) + string(rune('a'+i))
			units[unit] = limits.MaxRequests / 10
			text := "1,000,000,000 " + unit + " per 366 days"
			texts = append(texts, text, text+", each group")
		}
		w.save(func(s *policy.Set) {
			s.Routes = []limits.Route{{Name: strings.Repeat("r", limits.MaxNameLen), Match: patternsOf(t,
				"/chat"),
				Cost: limits.Costs{Units: units}, Settle: true}}
		})
		w.plan("free", texts...)
		w.key("one", "free", func(k *policy.Key) { k.Group = "acme" })
		r := w.check("one", "POST /chat")
		if !r.Allowed || len(r.Limits) != limits.MaxCounts || (r.Settlement != "") != fits {
			t.Errorf("units of %d letters: got %d bytes of %d limits, want a settlement: %t", length,
				len(r.Settlement), len(r.Limits), fits)
		}
	}
}

// A check takes one round trip for a caller that the environment knows, whatever limits
// apply, and one more for a new caller.
func TestRoundTrips(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "500 per hour", "900 per hour, each group", "900 per hour, together")
	w.key("one", "free", func(k *policy.Key) { k.Group = "acme" })
	w.key("two", "free", func(k *policy.Key) { k.Group = "acme" })
	w.passes("two", "GET /x", 2, 2) // the server knows the scripts
	if got := w.flushes(func() { w.check("one", "GET /x") }); got != 3 {
		t.Errorf("the first call took %d flushes, want 3: look, own step, shared steps", got)
	}
	if got := w.flushes(func() { w.check("one", "GET /x") }); got != 1 {
		t.Errorf("the second call took %d flushes, want 1", got)
	}
}

// Calls at once: a settlement ends a call, and a denial says to retry in a second.
func TestCallsAtOnce(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "2 at once", "100 per hour")
	w.key("one", "free")
	first := w.check("one", "GET /x")
	w.passes("one", "GET /x", 1, 1)
	denied := w.check("one", "GET /x")
	if denied.Allowed || denied.RetryAfter() != time.Second || denied.Repeats || first.Settlement == "" {
		t.Errorf("got %+v", denied)
	}
	one := limits.Costs{Units: map[string]int64{limits.Cost: 1}}
	if _, err := w.Settle(t.Context(), first.Settlement, one); err != nil {
		t.Fatal(err)
	}
	w.passes("one", "GET /x", 2, 1)
	for _, l := range must(w.Usage(t.Context(), &w.policy, []policy.Key{w.keys["one"]}))(t)[0] {
		if want := map[bool]int64{true: 2, false: 3}[l.AtOnce]; l.Used() != want {
			t.Errorf("%s counts %d, want %d", l.Limit, l.Used(), want)
		}
	}
}
