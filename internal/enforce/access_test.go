package enforce

import (
	"errors"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
)

func patterns(texts ...string) []route.Pattern {
	all := make([]route.Pattern, len(texts))
	for i, text := range texts {
		all[i] = must(route.Parse(text))
	}
	return all
}

// expectClosed requires that a check refuses a call because of its route.
func (w *world) expectClosed(t testing.TB, what string, c Call) {
	t.Helper()
	result, err := w.checker.Check(t.Context(), c, nil)
	if !isAccessRefusal(err) || result.Allowed || result.ID != "" {
		t.Errorf("%s: got %+v, %v, want a refusal for the route", what, result, err)
	}
}

func isAccessRefusal(err error) bool {
	var refusal *policy.RefusedError
	return errors.As(err, &refusal) && refusal.Cause == cause.Access && refusal.Verified &&
		errors.Is(err, policy.ErrRefused)
}

// openPlan sets the routes that a plan opens; none given opens all.
func (w *world) openPlan(t testing.TB, plan string, allow ...string) {
	t.Helper()
	w.save(t, func(s *policy.Set) {
		for i := range s.Plans {
			if s.Plans[i].Name == plan {
				s.Plans[i].Allow = patterns(allow...)
			}
		}
	})
}

// openKey sets the routes that a key opens; none given opens all of its plan.
func (w *world) openKey(t testing.TB, id string, allow ...string) {
	t.Helper()
	k := must(w.Get(t.Context(), id))
	must(w.Update(t.Context(), id, k.Version, "key.edit", byTest, func(k *policy.Key) {
		k.Allow = patterns(allow...)
	}))
}

// The plan's and the key's list must both open a route. An edit of either applies to the
// next check. A refused call takes nothing from the caller's limits or shared limits.
func TestAccess(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(4)...)
		w.plan(t, "other", perMinute(9)...)
		w.save(t, func(s *policy.Set) { s.Global.Limits = perMinute(5) })
		k, secret := w.create(t, "caller", "pro")
		c := call(secret)
		w.expect(t, c, "y") // without a list, all routes are open
		w.openPlan(t, "pro", "GET /orders/*", "api/prod * /health")
		w.expectClosed(t, "route outside the plan's list", c)
		w.expectClosed(t, "another method", c.to("POST", "/orders/7"))
		w.expectClosed(t, "another spelling of a closed path", c.to("GET", "/orders/..%2fadmin"))
		w.expect(t, c.to("GET", "/orders/7"), "y")
		w.openKey(t, k.ID, "* /orders/7", "* /admin")
		w.expectClosed(t, "only in the plan's list", c.to("GET", "/orders/8"))
		w.expectClosed(t, "only in the key's list", c.to("GET", "/admin"))
		w.openKey(t, k.ID, "* /orders/8")
		w.expectClosed(t, "removed from the key's list", c.to("GET", "/orders/7"))
		must(registrytest.Override(t.Context(), w, k.ID, 3,
			&policy.Override{Limits: perMinute(4), Reason: "x"}, byTest))
		w.expectClosed(t, "with an override", c.to("GET", "/orders/7"))
		w.openKey(t, k.ID)
		if last := w.expect(t, c.to("GET", "/orders/7"), "y"); last.Limits[0].Remaining != 1 ||
			last.Limits[1].Remaining != 2 {
			t.Errorf("got %s, want 1 and 2 remaining: refused calls take nothing", describe(last))
		}
		_, others := w.create(t, "another caller", "other")
		w.expect(t, call(others), "y") // the plan has no list
		w.openPlan(t, "pro")
		w.expect(t, c, "y")
		w.expect(t, c, "n")
	})
}

// A wrong secret and a revoked key are reported as unknown, not as refused for the route.
func TestAccessNeedsAValidKey(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		k, secret := w.create(t, "caller", "pro")
		w.openKey(t, k.ID, "GET /none")
		for _, rejected := range []apikey.Secret{must(apikey.Renew("test", k.ID)),
			must(apikey.Generate("test"))} {
			if _, err := w.checker.Check(t.Context(), call(rejected), nil); !errors.Is(err,
				policy.ErrUnknownKey) {
				t.Errorf("got %v, want ErrUnknownKey", err)
			}
		}
		w.expectClosed(t, "valid secret", call(secret))
		must(registrytest.Revoke(t.Context(), w, k.ID, 2, byTest))
		if _, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err, policy.ErrUnknownKey) {
			t.Errorf("revoked key: got %v, want ErrUnknownKey", err)
		}
	})
}

// The lists of plans apply to callers with a token and to callers with an address.
func TestAccessOfTokens(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		w.plan(t, "other", perMinute(9)...)
		w.save(t, func(s *policy.Set) { s.TokenPlan, s.AddressPlan = "pro", "other" })
		w.openPlan(t, "pro", "GET /orders")
		token := Call{Kind: policy.Token, Subject: "AAAAAAAAAAAAAAAAAAAAAA",
			Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
		w.expect(t, token, "y")
		w.expectClosed(t, "a token", token.to("GET", "/admin"))
		token.Plan = "other"
		w.expect(t, token.to("GET", "/admin"), "y")
		address := token.to("GET", "/admin")
		address.Kind, address.Subject, address.Plan = policy.Address, "BAAAAAAAAAAAAAAAAAAAAA", ""
		w.expect(t, address, "y")
	})
}

// Explain names the list that refuses a call: the plan's or the key's.
func TestExplainAccess(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		w.plan(t, "pro", perMinute(9)...)
		k, secret := w.create(t, "caller", "pro")
		w.openPlan(t, "pro", "GET /orders")
		explained := func(c Call) string {
			t.Helper()
			k := must(w.Get(t.Context(), k.ID))
			return must(w.explainer.Explain(t.Context(), must(w.Set(t.Context())), k, c)).Refused
		}
		c := call(secret)
		if got := explained(c); got != "" {
			t.Errorf("open route: got %q, want no refusal", got)
		}
		if got, want := explained(c.to("GET", "/admin")), "the plan does not open this route"; got != want {
			t.Errorf("closed by the plan: got %q, want %q", got, want)
		}
		w.openKey(t, k.ID, "POST *")
		if got, want := explained(c), "the key does not open this route"; got != want {
			t.Errorf("closed by the key: got %q, want %q", got, want)
		}
	})
}

// An invalid list is refused with the field at fault. Only API keys may have a list.
func TestAccessListsAreValidated(t *testing.T) {
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
