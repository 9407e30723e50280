package enforce

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
)

// perHour returns one limit per hour.
func perHour(requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: time.Hour}}
}

// saveEveryScope saves the route chat, whose calls cost 40 and are settled. Each caller
// may use 500,000 an hour, and every shared limit admits 100,000. It returns a call.
func (w *world) saveEveryScope(t *testing.T, settleMax int64) Call {
	t.Helper()
	w.plan(t, "free", perHour(500_000)...)
	_, secret := w.create(t, "chatty", "free")
	w.save(t, func(s *policy.Set) {
		s.PerIP.Limits, s.Global.Limits = perHour(100_000), perHour(100_000)
		s.Routes = []policy.Route{{
			Name: "chat", Cost: 40, Settle: true, SettleMax: settleMax, Pattern: route.Pattern{Path: "/chat"},
			PerKey: perHour(500_000), PerIP: perHour(100_000), Shared: perHour(100_000),
		}}
	})
	return call(secret).from("192.0.2.1").to("POST", "/chat")
}

// remainingForOther returns what remains of every limit for a new caller at the same
// address, in the form of scopes.
func (w *world) remainingForOther(t *testing.T) string {
	t.Helper()
	_, secret := w.create(t, "other", "free")
	c := must(w.checker.Check(t.Context(), call(secret).from("192.0.2.1").to("POST", "/chat"), nil))
	for i := range c.Limits {
		c.Limits[i].Remaining += c.Cost
	}
	return scopes(c)
}

// A settlement charges shared limits at most SettleMax, and reports the rest as AboveMax.
// The caller's own limits count all, and owe at most their number.
func TestSettleMax(t *testing.T) {
	for name, c := range map[string]struct {
		settleMax, actual, most, above, owed int64
		shared, own                          string
	}{
		"far above the default":  {0, 1_000_000_000, 400, 999_999_600, 500_000, "99600", "0"},
		"at the default":         {0, 400, 400, 0, 0, "99600", "499600"},
		"one above the default":  {0, 401, 400, 1, 0, "99600", "499599"},
		"above SettleMax":        {7000, 1_000_000_000, 7000, 999_993_000, 500_000, "93000", "0"},
		"SettleMax is the cost":  {40, 9000, 40, 8960, 0, "99960", "491000"},
		"below SettleMax":        {7000, 100, 7000, 0, 0, "99900", "499900"},
		"above the shared limit": {1_000_000_000, 1_000_000_000, 1_000_000_000, 0, 500_000, "0", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			chat := w.saveEveryScope(t, c.settleMax)
			s := w.settle(t, w.check(t, chat).Reservation, c.actual)
			if s.SettleMax != c.most || s.AboveMax != c.above || s.Owed != c.owed ||
				s.Partial {
				t.Errorf("got %+v, want a maximum of %d, %d above it, %d owed", s, c.most, c.above, c.owed)
			}
			others := "key:500000 route:500000 ip:S route-ip:S global:S route-all:S"
			if c.shared == "0" {
				return // the next call is denied, so its limits do not show what remains
			}
			if got, want := w.remainingForOther(t), strings.ReplaceAll(others, "S", c.shared); got != want {
				t.Errorf("another caller: got %s, want %s", got, want)
			}
			e := must(w.explainer.Explain(t.Context(), must(w.Set(t.Context())),
				must(w.Get(t.Context(), chat.Subject)), chat))
			if got, want := scopes(Result{Limits: e.Result.Limits[:2]}),
				"key:"+c.own+" route:"+c.own; got != want {
				t.Errorf("the caller: got %s, want %s", got, want)
			}
		})
	}
}

// SettleMax is fixed when the cost is taken. A later edit of the rule does not change it.
func TestSettleMaxAfterEdits(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*policy.Set)
		want string // remaining of the limit on all callers
	}{
		"SettleMax raised": {func(s *policy.Set) {
			s.Routes[0].SettleMax = limiter.MaxRequests
		}, "global:99600"},
		"cost raised":       {func(s *policy.Set) { s.Routes[0].Cost = 4000 }, "global:99600"},
		"SettleMax lowered": {func(s *policy.Set) { s.Routes[0].SettleMax = 40 }, "global:99600"},
		"route deleted":     {func(s *policy.Set) { s.Routes = nil }, "global:99600"},
		"route renamed": {func(s *policy.Set) {
			s.Routes[0].Name, s.Routes[0].SettleMax = "talk", limiter.MaxRequests
		}, "global:99600"},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			chat := w.saveEveryScope(t, 0)
			r := w.check(t, chat).Reservation
			w.save(t, c.edit)
			if s := w.settle(t, r, 1_000_000_000); s.SettleMax != 400 || s.AboveMax != 999_999_600 {
				t.Errorf("got %+v, want a maximum of 400", s)
			}
			if got := w.remainingForOther(t); !strings.Contains(got+" ", c.want+" ") {
				t.Errorf("another caller: got %s, want %s", got, c.want)
			}
		})
	}
}

// Without SettleMax, Reserve bounds the settlement at ten times the cost that the backend
// named. SettleMax applies as it is, but never below the reserved cost.
func TestSettleMaxOfReserve(t *testing.T) {
	for _, c := range []struct {
		route                 string
		settleMax, cost, most int64
	}{
		{"", 0, 500, 5000}, {"chat", 0, 500, 5000}, {"chat", 800, 500, 800}, {"chat", 100, 500, 500},
		{"", 0, 90_000, 900_000},
	} {
		w := open(t, valkeytest.Start(t))
		chat := w.saveEveryScope(t, c.settleMax)
		r := must(w.checker.Reserve(t.Context(), chat.Subject, c.route, c.cost))
		s := w.settle(t, r.Reservation, 1_000_000_000)
		if s.SettleMax != c.most || s.AboveMax != 1_000_000_000-c.most {
			t.Errorf("route %q, SettleMax %d, cost %d: got %+v, want a maximum of %d", c.route, c.settleMax,
				c.cost, s, c.most)
		}
	}
}

// A stored policy set without settleMax has the default. Unknown fields are ignored, as
// older releases ignore settleMax. A route without SettleMax is encoded without the
// field.
func TestSettleMaxInTheStoredSet(t *testing.T) {
	set, err := policyset.DecodeSet(
		policyset.EncodeSet(7, []byte(
			`{"routes":[{"name":"chat","pattern":{},"cost":40,"settle":true,"unheardOf":1}],"alsoNew":{}}`)),
	)
	if err != nil || set.Version != 7 || set.Routes[0].SettleMax != 0 ||
		set.Routes[0].SettleBound(40) != 400 {
		t.Errorf("got %+v, %v, want version 7 with the default", set, err)
	}
	if text := must(json.Marshal(policy.Route{Name: "chat", Cost: 40})); strings.Contains(string(text),
		"settleMax") {
		t.Errorf("route without SettleMax: got %s, want no field settleMax", text)
	}
}

// SettleMax is the route's cost to 1e9, or 0 for the default.
func TestSettleMaxBounds(t *testing.T) {
	for _, c := range []struct {
		cost, most int64
		want       string
	}{
		{40, 39, "is 39: must be at least the cost, 40 to 1000000000; leave it out for 10 times the cost"},
		{40, -1, "is -1: must be at least the cost, 40 to"},
		{0, -1, "is -1: must be at least the cost, 1 to"},
		{1, 1_000_000_001, "is 1000000001: must be at least the cost, 1 to"},
		{40, 40, ""}, {0, 5, ""}, {1, 1_000_000_000, ""}, {1_000_000_000, 0, ""},
	} {
		s := policy.Set{Routes: []policy.Route{{Name: "chat", Cost: c.cost, SettleMax: c.most}}}
		var found *policy.InvalidError
		switch err := s.Validate(); {
		case c.want == "":
			if err != nil {
				t.Errorf("%+v: got %v, want no error", c, err)
			}
		case !errors.As(err, &found) || found.Fields[0].Field != "routes[0].settleMax" ||
			!strings.Contains(found.Fields[0].Message, c.want):
			t.Errorf("%+v: got %v, want %q", c, err, c.want)
		}
	}
	if most := (policy.Route{}).SettleBound(500_000_000); most != limiter.MaxRequests {
		t.Errorf("got a bound of %d for a cost of 500,000,000, want the greatest cost", most)
	}
}
