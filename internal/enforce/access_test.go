package enforce

import (
	"errors"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

func patterns(texts ...string) []route.Pattern {
	all := make([]route.Pattern, len(texts))
	for i, text := range texts {
		all[i] = must(route.Parse(text))
	}
	return all
}

// closed makes a check that must be refused for its route.
func (w *world) closed(t testing.TB, what string, c Call) {
	t.Helper()
	checked, err := w.checker.Check(t.Context(), c, nil)
	if !refusedAccess(err) || checked.Allowed || checked.ID != "" {
		t.Errorf("%s: %+v, %v; want a refusal of access", what, checked, err)
	}
}

func refusedAccess(err error) bool {
	var refusal *policy.RefusedError
	return errors.As(err, &refusal) && refusal.Cause == cause.Access && refusal.Verified &&
		errors.Is(err, policy.ErrRefused)
}

// open gives a plan or a key its list.
func (w *world) open(t testing.TB, plan string, allow ...string) {
	t.Helper()
	w.save(t, func(s *policy.Set) {
		for i := range s.Plans {
			if s.Plans[i].Name == plan {
				s.Plans[i].Allow = patterns(allow...)
			}
		}
	})
}

func (w *world) openKey(t testing.TB, id string, allow ...string) {
	t.Helper()
	k := must(w.Get(t.Context(), id))
	must(w.Update(t.Context(), id, k.Version, "key.edit", byTest, func(k *policy.Key) {
		k.Allow = patterns(allow...)
	}))
}

// Both lists must open a route, an edit of either acts on the next check, and a refused
// call takes nothing from the caller's limits or from shared ones.
func TestAccess(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(4)...)
		w.plan(t, "other", perMinute(9)...)
		w.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(5) })
		k, secret := w.create(t, "caller", "pro")
		c := call(secret)
		w.expect(t, c, "y") // no list: all
		w.open(t, "pro", "GET /orders/*", "api/prod * /health")
		w.closed(t, "another route than the plan's", c)
		w.closed(t, "another method", c.to("POST", "/orders/7"))
		w.closed(t, "another spelling", c.to("GET", "/orders/..%2fadmin"))
		w.expect(t, c.to("GET", "/orders/7"), "y")
		w.openKey(t, k.ID, "* /orders/7", "* /admin")
		w.closed(t, "the plan's, not the key's", c.to("GET", "/orders/8"))
		w.closed(t, "the key's, not the plan's", c.to("GET", "/admin"))
		w.openKey(t, k.ID, "* /orders/8")
		w.closed(t, "before the key's edit", c.to("GET", "/orders/7"))
		must(w.SetOverride(t.Context(), k.ID, 3, &policy.Override{Limits: perMinute(4), Reason: "x"}, byTest))
		w.closed(t, "beneath an override", c.to("GET", "/orders/7"))
		w.openKey(t, k.ID)
		if last := w.expect(t, c.to("GET", "/orders/7"), "y"); last.Limits[0].Remaining != 1 ||
			last.Limits[1].Remaining != 2 {
			t.Errorf("refused calls took something: %s", describe(last))
		}
		_, others := w.create(t, "another caller", "other")
		w.expect(t, call(others), "y") // whose plan has no list
		w.open(t, "pro")
		w.expect(t, c, "y")
		w.expect(t, c, "n")
	})
}

// A refused call says no more of a key than that of a wrong secret, and a key that may
// not call at all stays unknown.
func TestAccessOfUnknownKeys(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		k, secret := w.create(t, "caller", "pro")
		w.openKey(t, k.ID, "GET /none")
		for _, rejected := range []apikey.Secret{must(apikey.Renew("test", k.ID)),
			must(apikey.Generate("test"))} {
			if _, err := w.checker.Check(t.Context(), call(rejected), nil); !errors.Is(err,
				policy.ErrUnknownKey) {
				t.Errorf("%v", err)
			}
		}
		w.closed(t, "the right secret", call(secret))
		must(w.Revoke(t.Context(), k.ID, 2, byTest))
		if _, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err, policy.ErrUnknownKey) {
			t.Errorf("revoked: %v", err)
		}
	})
}

// Callers whom a token or an address identifies have the lists of their plans.
func TestAccessOfTokens(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		w.plan(t, "other", perMinute(9)...)
		w.save(t, func(s *policy.Set) { s.TokenPlan, s.AddressPlan = "pro", "other" })
		w.open(t, "pro", "GET /orders")
		token := Call{Kind: policy.Token, Subject: "AAAAAAAAAAAAAAAAAAAAAA",
			Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
		w.expect(t, token, "y")
		w.closed(t, "a token", token.to("GET", "/admin"))
		token.Plan = "other"
		w.expect(t, token.to("GET", "/admin"), "y")
		address := token.to("GET", "/admin")
		address.Kind, address.Subject, address.Plan = policy.Address, "BAAAAAAAAAAAAAAAAAAAAA", ""
		w.expect(t, address, "y")
	})
}

// An explanation says whose list refuses a call.
func TestAccessExplained(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		k, secret := w.create(t, "caller", "pro")
		w.open(t, "pro", "GET /orders")
		explained := func(c Call) string {
			t.Helper()
			k := must(w.Get(t.Context(), k.ID))
			return must(w.explainer.Explain(t.Context(), must(w.Set(t.Context())), k, c)).Refused
		}
		c := call(secret)
		if got := explained(c); got != "" {
			t.Errorf("an open route: %s", got)
		}
		if got := explained(c.to("GET", "/admin")); got != "the plan does not open this route" {
			t.Error(got)
		}
		w.openKey(t, k.ID, "POST *")
		if got := explained(c); got != "the key does not open this route" {
			t.Error(got)
		}
	})
}

// Lists that cannot be used are refused with the place of what is wrong.
func TestAccessValidated(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		k, _ := w.create(t, "caller", "pro")
		for field, allow := range map[string][]route.Pattern{
			"allow[1].path": {{Path: "/a"}, {Path: "a"}}, "allow": make([]route.Pattern, policy.MaxAllow+1),
		} {
			_, err := w.Update(t.Context(), k.ID, 1, "key.edit", byTest,
				func(k *policy.Key) { k.Allow = allow })
			wantInvalid(t, err, field)
			set := must(w.Set(t.Context()))
			set.Plans[0].Allow = allow
			_, err = w.SaveSet(t.Context(), *set, byTest)
			wantInvalid(t, err, "plans[0]."+field)
		}
		_, err := w.Adopt(t.Context(), policy.Token, "AAAAAAAAAAAAAAAAAAAAAA", "x", nil, byTest)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Update(t.Context(), "AAAAAAAAAAAAAAAAAAAAAA", 1, "key.edit", byTest, func(k *policy.Key) {
			k.Allow = patterns("GET /a")
		})
		wantInvalid(t, err, "allow")
	})
}
