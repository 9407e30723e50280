package dashboard_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// planOf returns the form of a plan with one log limit per minute, and more fields.
func planOf(version int64, name, requests string, more ...string) url.Values {
	return fields(append([]string{
		"version", fmt.Sprint(version), "name", name, "mode", "enforce", "degraded", "closed", "reason",
		"test", "action", "save",
		"limits[0]", requests + " per minute",
	}, more...)...)
}

func TestPlans(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/policies").Wants(t, http.StatusOK, "free", "10 per 10 seconds", `aria-label="2 keys of free"`)
	s.Get("/policies/plans/new").Wants(t, http.StatusOK, `name="version" value="1"`)
	s.Post("/policies/plans/new", planOf(1, "", "5")).Wants(t, http.StatusUnprocessableEntity,
		`id="name-error"`)
	s.Post("/policies/plans/new", planOf(1, "free", "5")).Wants(
		t, http.StatusUnprocessableEntity, `id="name-error"`, "is taken",
	)
	s.Post("/policies/plans/new", planOf(1, "pro", "x")).Wants(
		t, http.StatusUnprocessableEntity, `id="limits-0-error"`,
	)
	s.Post("/policies/plans/new", sitetest.With(planOf(1, "pro", "5"), "reason", "")).Wants(
		t, http.StatusUnprocessableEntity, "Reason is required.",
	)
	s.Post("/policies/plans/new", sitetest.With(planOf(1, "pro", "5"), "degraded", "local")).Wants(
		t, http.StatusUnprocessableEntity, `id="share-error"`,
	)
	s.Post("/policies/plans/new", sitetest.With(planOf(1, "pro", "5"), "action", "add:perGroup")).Wants(
		t, http.StatusOK, `name="perGroup[0]"`,
	)
	if s.Keys.Written() != 0 {
		t.Fatal("an invalid plan was written")
	}
	s.Post(
		"/policies/plans/new", sitetest.With(planOf(1, "pro", "5"), "degraded", "local", "share", "20"),
	).Wants(t, http.StatusSeeOther)
	if p, _ := s.Set().Plan("pro"); p.Number != 2 || p.Degraded != policy.Local || p.Share != 20 ||
		p.Limits[0] != sitetest.Per(5, time.Minute) {
		t.Errorf("saved %+v, want 5 per minute and a share of 20", p)
	}
	s.Get("/policies/plans/2/edit").Wants(
		t, http.StatusOK, `name="limits[0]" value="5 per minute"`, `name="share" value="20"`,
	)
	s.Post("/policies/plans/2/edit", planOf(2, "business", "6")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/policies").Wants(t, http.StatusSeeOther)
	if p, _ := s.Set().PlanByNumber(2); p.Name != "pro" || p.Share != 20 {
		t.Errorf("after the undo: %+v, want the name pro and a share of 20", p)
	}
	s.Get("/policies/plans/1/delete").Wants(t, http.StatusOK, "Delete the plan")
	s.Post("/policies/plans/1/delete", fields("version", "4", "reason", "x")).Wants(
		t, http.StatusUnprocessableEntity, "keys use it (2)",
	)
	s.Post("/policies/plans/2/delete", fields("version", "4", "reason", "x")).Wants(t, http.StatusSeeOther)
	s.Get("/policies/plans/2/edit").Wants(t, http.StatusNotFound)
	s.Get("/policies/plans/99/edit").Wants(t, http.StatusNotFound)
	s.Get("/policies/plans/x").Wants(t, http.StatusNotFound)
}

// An edit of an older version of the policies writes nothing and shows both changes.
// Saving again overwrites the other one.
func TestPolicyConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("theirs", sitetest.Per(77, time.Hour))
	s.Post(
		"/policies/plans/1/edit", planOf(1, "free", "20"),
	).Wants(t, http.StatusConflict, "<bdi>test</bdi> saved first", "plan theirs", "77 per hour",
		"plan free: limits: 10 per 10 seconds → 20 per minute", `name="version" value="2"`,
		`name="limits[0]" value="20 per minute"`, "Overwrite with my changes")
	if s.Keys.Written() != 0 {
		t.Fatal("an edit of an older version was written")
	}
	s.Post("/policies/plans/1/edit", planOf(2, "free", "20")).Wants(t, http.StatusSeeOther)
	if set := s.Set(); len(set.Plans) != 2 || set.Plans[0].Limits[0] != sitetest.Per(20, time.Minute) {
		t.Errorf("saved %+v, want both plans, free with 20 per minute", set.Plans)
	}
	s.Post("/policies/plans/1/edit", planOf(9, "free", "30")).Wants(t, http.StatusConflict)
	s.Post(
		"/policies/plans/1/edit", sitetest.With(planOf(1, "free", "30"), "version", "x"),
	).Wants(t, http.StatusBadRequest)
}

// ruleOf returns the form of a route rule with the cost 1, and more fields. old is the
// name of the rule to edit; empty for a new one.
func ruleOf(version int64, old, name, method, path string, more ...string) url.Values {
	return fields(append([]string{
		"version", fmt.Sprint(version), "rule", old, "name", name, "method", method, "path", path, "cost",
		"1", "mode", "enforce", "reason", "test",
		"action", "save",
	}, more...)...)
}

// Rules are listed with the most specific first. A rule that ties with another gets an
// error at its pattern.
func TestRules(t *testing.T) {
	s := sitetest.New(t).Login()
	version := int64(1)
	for _, r := range [][3]string{{"everything", "", ""}, {"orders", "get", "/orders/{proxy+}"},
		{"one order", "GET", "/orders/{id}"}} {
		s.Post("/policies/rules", ruleOf(version, "", r[0], r[1], r[2])).Wants(t, http.StatusSeeOther)
		version++
	}
	body := s.Get("/policies").Wants(t, http.StatusOK, "GET /orders/{id}").Body
	if a, b, c := strings.Index(body, "one order"), strings.Index(body, ">orders<"),
		strings.Index(body, "everything"); a > b || b > c {
		t.Errorf("the rules are at offsets %d, %d, %d, want them ascending", a, b, c)
	}
	s.Post(
		"/policies/rules", ruleOf(version, "", "tie", "GET", "/orders/{other}"),
	).Wants(t, http.StatusUnprocessableEntity,
		`id="path-error"`, "Ties with route &#34;one order&#34;")
	s.Post(
		"/policies/rules", ruleOf(version, "one order", "one order", "GET", "/orders/{proxy+}"),
	).Wants(t, http.StatusUnprocessableEntity,
		`id="path-error"`)
	s.Post("/policies/rules", ruleOf(version, "", "orders", "PUT", "/x")).Wants(
		t, http.StatusUnprocessableEntity, `id="name-error"`,
	)
	s.Post("/policies/rules", ruleOf(version, "", "bad", "GET", "orders")).Wants(
		t, http.StatusUnprocessableEntity, `id="path-error"`,
	)
	dear := ruleOf(version, "", "dear", "GET", "/x")
	s.Post("/policies/rules", sitetest.With(dear, "cost", "11")).Wants(t, http.StatusUnprocessableEntity,
		"A call of route &#34;dear&#34; costs 11 and could never pass: plan free: 10 per 10 seconds.")
	s.Post("/policies/rules", sitetest.With(ruleOf(version, "orders", "orders", "GET", "/orders/{proxy+}",
		"shared[0]", "7 per hour"), "cost", "2")).Wants(t, http.StatusSeeOther)
	version++
	s.Get("/policies/rules/edit?rule=orders").Wants(
		t, http.StatusOK, `name="cost" value="2"`, `name="shared[0]" value="7 per hour"`,
	)
	s.Get("/policies").Wants(t, http.StatusOK, "all callers together: 7 per hour")
	s.Get("/policies/rules/edit?rule=none").Wants(t, http.StatusNotFound)
	s.Post(
		"/policies/rules/delete?rule=orders", fields("version", fmt.Sprint(version), "reason", "gone"),
	).Wants(t, http.StatusSeeOther)
	if set := s.Set(); len(set.Routes) != 2 {
		t.Errorf("got routes %+v, want 2", set.Routes)
	}
}

// An error of a route's cost names every limit that calls of the route would never pass.
func TestCostAboveLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("starter", sitetest.Per(1000, time.Hour), sitetest.Per(30, 10*time.Second))
	s.Keys.Plan("large", sitetest.Per(35, time.Minute))
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "a.b" })
	s.Keys.Must(s.Keys.OverrideGroup(t.Context(), "a.b", &policy.Override{
		Limits: []limiter.Limit{sitetest.Per(20, time.Minute)}, Reason: "an incident",
	}, sitetest.ByTest))
	dear := sitetest.With(ruleOf(s.Set().Version, "", "dear", "GET", "/x"), "cost", "40")
	want := "costs 40 and could never pass: plan free: 10 per 10 seconds; " +
		"plan starter: 30 per 10 seconds; plan large: 35 per minute; " +
		"override of group a.b: 20 per minute."
	got := s.Post("/policies/rules", dear).Wants(t, http.StatusUnprocessableEntity, want)
	if strings.Contains(got.Body, "plans[") || strings.Contains(got.Body, "groupOverrides") {
		t.Error("the error has the path of a field")
	}
}

// sharedOf returns the form of the shared limits without any limit, and more fields.
func sharedOf(version string, more ...string) url.Values {
	form := fields("version", version, "perIPMode", "enforce", "globalMode", "shadow", "reason", "test",
		"action", "save", "deny", "", "allow", "",
		"exempt", "")
	return sitetest.With(form, more...)
}

func TestShared(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/policies/shared").Wants(t, http.StatusOK)
	for field, value := range map[string]string{"deny": "nonsense", "allow": "10.0.0.1/8",
		"exempt": "1.2.3.4/99", "tokenPlan": "none", "globalMode": "x"} {
		s.Post("/policies/shared", sharedOf("1", field, value)).Wants(
			t, http.StatusUnprocessableEntity, `id="`+field+`-error"`,
		)
	}
	form := sharedOf("1", "deny", "198.51.100.0/24\r\n2001:db8::/32, 192.0.2.7", "tokenPlan", "free",
		"perIP[0]", "50 per minute", "global[0]", "5000 per minute")
	s.Post("/policies/shared", form).Wants(t, http.StatusSeeOther)
	set := s.Set()
	if len(set.Deny) != 3 || set.Deny[2] != netip.MustParsePrefix("192.0.2.7/32") ||
		set.TokenPlan != "free" {
		t.Errorf("saved %+v, want 3 denied networks and the token plan free", set)
	}
	page := s.Get("/policies").Wants(t, http.StatusOK, "198.51.100.0/24, 2001:db8::/32",
		"50 per minute",
		"5,000 per minute; shadow")
	s.Get("/policies/shared").Wants(
		t, http.StatusOK, "2001:db8::/32",
	)
	undo := sitetest.UndoInPage.FindStringSubmatch(page.Body)[1]
	warned := s.Post(undo, nil).Wants(t, http.StatusUnprocessableEntity, "JWTs without a plan are refused.")
	s.Post(strings.Replace(undo, "/undo", "/revert", 1), sitetest.FormIn(warned.Body)).
		Wants(t, http.StatusSeeOther)
	if set := s.Set(); len(set.Deny) != 0 {
		t.Errorf("after the undo: %+v, want no denied networks", set)
	}
}

// Explain shows which rule wins and why, the use of every limit, and the response that
// the client gets.
func TestExplain(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []policy.Route{
			{Name: "orders", Pattern: routing.Pattern{Path: "/orders/{proxy+}"}, Cost: 1},
			{
				Name: "one order", Pattern: routing.Pattern{Path: "/orders/{id}"}, Cost: 3,
				PerKey: []limiter.Limit{sitetest.Per(4, time.Hour)},
			},
		}
		set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	})
	s.Get("/explain").Wants(t, http.StatusOK)
	s.Get(
		"/explain?key={acme}&path=/orders/7",
	).Wants(t, http.StatusOK, "Applies: it has exactly one segment", "Lost to", "The call costs 3.",
		"this key, rule ", "4 per hour", "allowed", "RateLimit-Policy:")
	s.Keys.Use("acme", 8)
	s.Get(
		"/explain?key={acme}&path=/orders/7",
	).Wants(t, http.StatusOK, "Denied by 10 per 10 seconds. Next call passes in 10.0 s, at",
		"HTTP/1.1 429", "Retry-After: 10",
		"<b>8</b> of 10")
	s.Get("/explain?key={acme}&path=/else").Wants(t, http.StatusOK, "No route rule matches")
	s.Get("/explain?key={acme}&address=198.51.100.7").Wants(
		t, http.StatusOK, "Refused: the address is on the deny list", "HTTP/1.1 401",
	)
	s.Get("/explain?key={acme}&path=orders").Wants(t, http.StatusUnprocessableEntity, `id="path-error"`)
	s.Get("/explain?key={acme}&address=here").Wants(t, http.StatusUnprocessableEntity, `id="address-error"`)
	s.Get("/explain?key=nobody").Wants(t, http.StatusUnprocessableEntity, "No key has this id or name.")
	secret := s.Keys.Secrets["acme"].Reveal()
	if got := s.Get("/explain?key="+secret).Wants(
		t, http.StatusUnprocessableEntity, "You pasted a whole secret",
	); strings.Contains(got.Body, secret) {
		t.Error("the page shows the secret")
	}
	if s.Keys.Written() != 0 {
		t.Error("an explanation wrote something")
	}
}

func TestOverview(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/").Wants(t, http.StatusOK, "No requests in this period", "curl -i")
	s.Keys.Called("acme", time.Now(), 90, 10)
	s.Keys.Called("bolt", time.Now(), 5, 20)
	for _, path := range []string{"/", "/?range=5m", "/?range=24h", "/?range=7d", "/?range=odd"} {
		s.Get(path).Wants(
			t, http.StatusOK, `<a class="big" href="#busiest">125</a>`,
			`href="/denials`, "95 allowed and 30 blocked", ">acme<",
			">bolt<", "24 %",
		)
	}
	body := s.Get("/").Body
	busiest, blocked := strings.Index(body, `id="busiest"`), strings.Index(body, `id="most-blocked"`)
	if first := strings.Index(body[busiest:], "acme"); first > strings.Index(body[busiest:], "bolt") {
		t.Error("acme is not the busiest")
	}
	if first := strings.Index(body[blocked:], "bolt"); first > strings.Index(body[blocked:], "acme") {
		t.Error("bolt is not the most blocked")
	}
	from := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	to := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	s.Get("/?"+url.Values{"from": {from}, "to": {to}}.Encode()).Wants(t, http.StatusOK,
		"No requests in this period")
	s.Keys.Server.SetTime(time.Now()) // so that audit entries fall into the hour on the page
	s.Post("/policies/plans/1/edit", planOf(1, "free", "7")).Wants(t, http.StatusSeeOther)
	s.Get("/?range=1h").Wants(t, http.StatusOK, "plan free: limits")
	if got := s.Refresh("/?live=5").Wants(
		t, http.StatusOK, `<section id="live"`, "125 calls, 30 blocked",
	); strings.Contains(got.Body, "<html") {
		t.Error("a refresh got a whole page")
	}
}
