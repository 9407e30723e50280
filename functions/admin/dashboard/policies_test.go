package dashboard_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// planOf returns the form of a plan with one log limit per minute, and more fields.
func planOf(version, name, requests string, more ...string) url.Values {
	return sitetest.With(fields("version", version, "name", name, "degraded", "closed", "reason",
		"test", "action", "save", "limits", requests+" per minute"), more...)
}

func TestPlans(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/policies").Wants(t, http.StatusOK, "free", "10 per 10 seconds", `aria-label="2 keys of free"`)
	s.Get("/policies/plans/new").Wants(t, http.StatusOK,
		`name="version" value="`+s.Keys.Named("{policy#}")+`"`)
	s.Post("/policies/plans/new", planOf("{policy#}", "", "5")).Wants(t, http.StatusUnprocessableEntity,
		`id="name-error"`)
	s.Post("/policies/plans/new", planOf("{policy#}", "free", "5")).Wants(t, http.StatusUnprocessableEntity,
		`id="name-error"`, "is taken")
	s.Post("/policies/plans/new", planOf("{policy#}", "pro", "x")).Wants(t, http.StatusUnprocessableEntity,
		`id="limits-lines"`, `<dd class="wrong">`)
	s.Post("/policies/plans/new", sitetest.With(planOf("{policy#}", "pro", "5"), "reason", "")).Wants(t,
		http.StatusUnprocessableEntity, "Enter a reason")
	s.Post("/policies/plans/new", sitetest.With(planOf("{policy#}", "pro", "5"), "degraded", "local")).Wants(
		t, http.StatusUnprocessableEntity, `id="share-error"`,
	)
	if s.Keys.Written() != 0 {
		t.Fatal("an invalid plan was written")
	}
	s.Post(
		"/policies/plans/new", sitetest.With(planOf("{policy#}", "pro", "5"), "degraded", "local", "share",
			"20"),
	).Wants(t, http.StatusSeeOther)
	if p, _ := s.Set().Plan("pro"); p.Number != 2 || p.Degraded != policy.Local || p.Share != 20 ||
		!p.Limits[0].Equal(sitetest.Per(5, time.Minute)) {
		t.Errorf("saved %+v, want 5 per minute and a share of 20", p)
	}
	s.Get("/policies/plans/2/edit").Wants(t, http.StatusOK, ">5 per minute</textarea>",
		`name="share" value="20"`)
	s.Post("/policies/plans/2/edit", planOf("{policy#}", "business", "6")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/policies").Wants(t, http.StatusSeeOther)
	if p, _ := s.Set().PlanByNumber(2); p.Name != "pro" || p.Share != 20 {
		t.Errorf("after the undo: %+v, want the name pro and a share of 20", p)
	}
	s.Get("/policies/plans/1/delete").Wants(t, http.StatusOK, "Delete the plan")
	s.Post("/policies/plans/1/delete", fields("version", "{policy#}", "reason", "x")).Wants(t,
		http.StatusUnprocessableEntity, "keys use it (2)")
	s.Post("/policies/plans/2/delete", fields("version", "{policy#}", "reason", "x")).Wants(t,
		http.StatusSeeOther)
	s.Get("/policies/plans/2/edit").Wants(t, http.StatusNotFound)
	s.Get("/policies/plans/99/edit").Wants(t, http.StatusNotFound)
	s.Get("/policies/plans/x").Wants(t, http.StatusNotFound)
}

// An edit of an older version of the policies is made if nobody changed its parts since.
func TestPolicyParts(t *testing.T) {
	s := sitetest.New(t).Login()
	stale := s.Keys.Named("{policy#}")
	s.Keys.Plan("theirs", sitetest.Per(77, time.Hour))
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = append(set.Routes, sitetest.Route("chat", "", "POST /chat"))
		set.Limits = append(set.Limits, sitetest.Limit("9 per minute, each address"))
	})
	s.Post("/policies/plans/1/edit", planOf(stale, "free", "20")).Wants(t, http.StatusSeeOther)
	s.Post("/policies/plans/new", planOf(stale, "new", "30")).Wants(t, http.StatusSeeOther)
	s.Post("/policies/routes/new", routeOf(stale, "chat", "/x")).Wants(t, http.StatusUnprocessableEntity)
	set := s.Set()
	if len(set.Plans) != 3 || len(set.Routes) != 1 || len(set.Limits) != 1 ||
		!set.Plans[0].Limits[0].Equal(sitetest.Per(20, time.Minute)) {
		t.Errorf("got %+v, want both edits", set)
	}
	s.Post("/policies/plans/1/edit", planOf(stale, "free", "30")).Wants(t, http.StatusConflict)
	s.Post("/policies/plans/1/delete", fields("version", stale, "reason", "x")).Wants(t, http.StatusConflict)
}

// An edit of an older version of what others changed since writes nothing and shows both
// changes. Saving again overwrites the other one.
func TestPolicyConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	stale := s.Keys.Named("{policy#}")
	s.Keys.Plan("theirs", sitetest.Per(77, time.Hour))
	s.Keys.Plan("free", sitetest.Per(77, time.Minute))
	s.Post(
		"/policies/plans/1/edit", planOf(stale, "free", "20"),
	).Wants(t, http.StatusConflict, "<bdi>test</bdi> saved first", "plan theirs", "77 per hour",
		"plan free: limits: 77 per minute → 20 per minute",
		`name="version" value="`+s.Keys.Named("{policy#}")+`"`,
		">20 per minute</textarea>", "Save mine over theirs")
	if s.Keys.Written() != 0 {
		t.Fatal("an edit of an older version was written")
	}
	s.Post("/policies/plans/1/edit", planOf("{policy#}", "free", "20")).Wants(t, http.StatusSeeOther)
	if set := s.Set(); len(set.Plans) != 2 || !set.Plans[0].Limits[0].Equal(sitetest.Per(20, time.Minute)) {
		t.Errorf("saved %+v, want both plans, free with 20 per minute", set.Plans)
	}
	s.Post("/policies/plans/1/edit", planOf("9999", "free", "30")).Wants(t, http.StatusConflict)
	s.Post("/policies/plans/1/edit",
		sitetest.With(planOf("{policy#}", "free", "30"), "version", "x")).Wants(t, http.StatusBadRequest)
}

// routeOf returns the form of a route with patterns, and more fields.
func routeOf(version, name, match string, more ...string) url.Values {
	return sitetest.With(fields("version", version, "name", name, "match", match,
		"cost", "", "reason", "test", "action", "save"), more...)
}

// A route has a name, patterns, a cost and whether a backend settles it. A wrong one gets
// its error at the field. Limits on it follow its new name.
func TestRoutes(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/policies/routes"
	s.Get(path+"/new").Wants(t, http.StatusOK, `name="match"`)
	s.Post(path+"/new", routeOf("{policy#}", "chat", "POST /chat\r\nGET /chat/{id}", "cost",
		"500 input, 800 output", "settle", "yes", "scopes", "chat:write\r\n\r\n admin ")).Wants(
		t, http.StatusSeeOther)
	s.Post(path+"/new", routeOf("{policy#}", "dear", "/dear", "cost", "2")).Wants(t, http.StatusSeeOther)
	for field, form := range map[string]url.Values{
		"name":   routeOf("{policy#}", "chat", "PUT /x"),
		"match":  routeOf("{policy#}", "bad", "GET orders"),
		"cost":   routeOf("{policy#}", "bad", "/x", "cost", "much"),
		"scopes": routeOf("{policy#}", "bad", "/x", "scopes", `a"b`),
	} {
		s.Post(path+"/new", form).Wants(t, http.StatusUnprocessableEntity, `id="`+field+`-error"`)
	}
	s.Post(path+"/new", routeOf("{policy#}", "tie", "GET /chat/{other}", "cost", "5 input")).Wants(
		t, http.StatusUnprocessableEntity, `id="cost-error"`, "chat")
	s.Post(path+"/edit?route=dear", routeOf("{policy#}", "dear", "/dear", "cost", "11")).Wants(t,
		http.StatusUnprocessableEntity,
		"10 per 10 seconds", "11")
	s.Keys.Save(func(set *policy.Set) {
		set.Limits = []limits.Limit{sitetest.Limit("7 per hour, on chat, together"),
			sitetest.Limit("90 per hour, except chat, together")}
	})
	s.Get("/policies").Wants(t, http.StatusOK, "GET /chat/{id}", "500 input, 800 output, settled after",
		"7 per hour, on chat, together")
	form := sitetest.FormIn(s.Get(path+"/edit?route=chat").Wants(t, http.StatusOK,
		`name="settle" value="yes" checked`).Body)
	if form.Get("match") != "POST /chat\nGET /chat/{id}" || form.Get("cost") != "500 input, 800 output" ||
		form.Get("scopes") != "chat:write\nadmin" {
		t.Errorf("the form has %v, want what was saved", form)
	}
	s.Post(path+"/edit?route=chat",
		sitetest.With(form, "name", "talk", "reason", "x", "action", "save")).Wants(t, http.StatusSeeOther)
	set := s.Set()
	talk, _ := set.Route("talk")
	if talk.ID != "chat" || !slices.Equal(talk.Scopes, []string{"chat:write", "admin"}) ||
		set.Limits[0].On != "talk" || set.Limits[1].Except[0] != "talk" {
		t.Errorf("after a new name: route %+v, limits %v", talk, set.Limits)
	}
	s.Post(path+"/edit?route=talk", sitetest.With(form, "name", "talk", "version", "{policy#}", "scopes", "",
		"reason", "x", "action", "save")).Wants(t, http.StatusSeeOther)
	if talk, _ := s.Set().Route("talk"); len(talk.Scopes) != 0 {
		t.Errorf("got scopes %q of an empty field, want none", talk.Scopes)
	}
	s.Get(path+"/edit?route=none").Wants(t, http.StatusNotFound)
	s.Post(path+"/delete?route=talk", fields("version", "{policy#}", "reason", "gone")).Wants(
		t, http.StatusUnprocessableEntity, "talk")
	s.Post(path+"/delete?route=dear", fields("version", "{policy#}", "reason", "gone")).Wants(t,
		http.StatusSeeOther)
	if set := s.Set(); len(set.Routes) != 1 {
		t.Errorf("got routes %+v, want one", set.Routes)
	}
}

// The preview of an edit says which limits count from zero.
func TestPreviewNamesNewCounts(t *testing.T) {
	s := sitetest.New(t).Login()
	form := planOf("{policy#}", "free", "20", "action", "preview")
	kept := s.Post("/policies/plans/1/edit", form).Wants(t, http.StatusOK, "1 change for 2 keys.")
	if strings.Contains(kept.Body, "starts at zero") {
		t.Error("a new number begins a new count")
	}
	form.Set("limits", "20 per minute\n5 per hour, each group")
	s.Post("/policies/plans/1/edit", form).Wants(t, http.StatusOK,
		"plan free: 5 per hour, each group: starts at zero.")
}

// An error of a route's cost names every limit that calls of the route would never pass.
func TestCostAboveLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("starter", sitetest.Per(1000, time.Hour), sitetest.Per(30, 10*time.Second))
	s.Keys.Plan("large", sitetest.Per(35, time.Minute))
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "a.b" })
	s.Keys.Save(func(set *policy.Set) {
		set.GroupOverrides = map[string]policy.Override{"a.b": {
			Limits: []limits.Limit{sitetest.Per(20, time.Minute)}, Reason: "an incident"}}
	})
	dear := routeOf("{policy#}", "dear", "/x", "cost", "40")
	want := "costs 40 and could never pass: override of group a.b: 20 per minute; plan free: 10 per " +
		"10 seconds; plan starter: 30 per 10 seconds; plan large: 35 per minute."
	got := s.Post("/policies/routes/new", dear).Wants(t, http.StatusUnprocessableEntity, want)
	if strings.Contains(got.Body, "plans[") || strings.Contains(got.Body, "groupOverrides") {
		t.Error("the error has the path of a field")
	}
}

// allOf returns the form of what applies to all callers, and more fields.
func allOf(version string, more ...string) url.Values {
	form := fields("version", version, "reason", "test", "action", "save", "limits", "", "deny", "",
		"allow", "", "exempt", "")
	return sitetest.With(form, more...)
}

func TestAllCallers(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/policies/all").Wants(t, http.StatusOK)
	for field, value := range map[string]string{"deny": "nonsense", "allow": "10.0.0.1/8",
		"exempt": "1.2.3.4/99", "tokenPlan": "none"} {
		s.Post("/policies/all", allOf("{policy#}", field, value)).Wants(t, http.StatusUnprocessableEntity,
			`id="`+field+`-error"`)
	}
	s.Post("/policies/all", allOf("{policy#}", "limits", "50 per minute, each address\n9 per hour")).Wants(
		t, http.StatusUnprocessableEntity, `id="limits-lines"`, "For whom?")
	form := allOf("{policy#}", "deny", "198.51.100.0/24\r\n2001:db8::/32, 192.0.2.7", "tokenPlan", "free",
		"limits", "50 per minute, each address\n5000 per minute, together, shadow")
	s.Post("/policies/all", form).Wants(t, http.StatusSeeOther)
	set := s.Set()
	if len(set.Deny) != 3 || set.Deny[2] != netip.MustParsePrefix("192.0.2.7/32") ||
		set.TokenPlan != "free" {
		t.Errorf("saved %+v, want 3 denied networks and the token plan free", set)
	}
	page := s.Get("/policies").Wants(t, http.StatusOK, "198.51.100.0/24, 2001:db8::/32",
		"50 per minute, each address", "5,000 per minute, together, shadow")
	s.Get("/policies/all").Wants(t, http.StatusOK, "2001:db8::/32")
	undo := sitetest.UndoInPage.FindStringSubmatch(page.Body)[1]
	warned := s.Post(undo, nil).Wants(t, http.StatusUnprocessableEntity, "JWTs without a plan are refused.")
	s.Post(undo, sitetest.FormIn(warned.Body)).Wants(t, http.StatusSeeOther)
	if set := s.Set(); len(set.Deny) != 0 {
		t.Errorf("after the undo: %+v, want no denied networks", set)
	}
}

// Explain shows the routes of the call and which sets its cost, the use of every limit, and
// the response that the client gets.
func TestExplain(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []limits.Route{sitetest.Route("orders", "", "/orders/{proxy+}"),
			sitetest.Route("one-order", "3", "/orders/{id}")}
		set.Limits = []limits.Limit{sitetest.Limit("4 per hour, on one-order, each caller")}
		set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	})
	s.Get("/explain").Wants(t, http.StatusOK)
	s.Get(
		"/explain?key={acme}&path=/orders/7",
	).Wants(t, http.StatusOK, "sets the cost</span>", "The call costs 3, by the route one-order.",
		"orders", "on one-order</bdi>", "4 per hour", "this call takes 3", "allowed", "RateLimit-Policy:")
	s.Keys.Use("acme", 8)
	s.Get(
		"/explain?key={acme}&path=/orders/7",
	).Wants(t, http.StatusOK, "Denied by 10 per 10 seconds. Next call passes in 10 s, at",
		"HTTP/1.1 429", "Retry-After: 10",
		"<b>8</b> of 10")
	s.Get("/explain?key={acme}&path=/else").Wants(t, http.StatusOK, "falls under no route and costs 1.")
	s.Get("/explain?key={acme}&address=198.51.100.7").Wants(t, http.StatusOK,
		"Refused: the address is on the deny list", "HTTP/1.1 401")
	s.Get("/explain?key={acme}&path=orders").Wants(t, http.StatusUnprocessableEntity, `id="path-error"`)
	s.Get("/explain?key={acme}&address=here").Wants(t, http.StatusUnprocessableEntity, `id="address-error"`)
	s.Get("/explain?key=nobody").Wants(t, http.StatusUnprocessableEntity, "No key has this id or name.")
	secret := s.Keys.Secrets["acme"].Reveal()
	if got := s.Get("/explain?key="+secret).Wants(t, http.StatusUnprocessableEntity,
		"You pasted a whole secret"); strings.Contains(got.Body, secret) {
		t.Error("the page shows the secret")
	}
	if s.Keys.Written() != 0 {
		t.Error("an explanation wrote something")
	}
}

func TestOverview(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/").Wants(t, http.StatusOK, "No call has reached this deployment yet.", "curl -i")
	s.Keys.Called("acme", time.Now(), 90, 10)
	s.Keys.Called("bolt", time.Now(), 5, 20)
	for _, path := range []string{"/", "/?range=5m", "/?range=24h", "/?range=7d", "/?range=odd"} {
		s.Get(path).Wants(t, http.StatusOK, `<a class="big" href="#busiest">125</a>`, `href="/denials`,
			"95 allowed, 30 denied and 0 refused", ">acme<", ">bolt<", "24 %")
	}
	body := s.Get("/").Body
	attention := strings.Index(body, `id="attention"`)
	if first := strings.Index(body[attention:], "bolt"); first > strings.Index(body[attention:], "acme") {
		t.Error("bolt is not the most denied")
	}
	from := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	to := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	s.Get("/?"+url.Values{"from": {from}, "to": {to}}.Encode()).Wants(t, http.StatusOK,
		"No call in this range.")
	s.Keys.Server.SetTime(time.Now()) // so that audit entries fall into the hour on the page
	s.Post("/policies/plans/1/edit", planOf("{policy#}", "free", "7")).Wants(t, http.StatusSeeOther)
	s.Get("/?range=1h").Wants(t, http.StatusOK, "plan free: limits")
	if got := s.Refresh("/?live=5").Wants(t, http.StatusOK, `<section id="live"`,
		"125 calls, 30 denied, 0 refused"); strings.Contains(got.Body, "<html") {
		t.Error("a refresh got a whole page")
	}
}
