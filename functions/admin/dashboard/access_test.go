package dashboard_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
)

// The routes that a plan or a key allows are typed one per line, validated, shown and
// undone. A form without the field keeps them.
func TestAllowedRoutesOnPages(t *testing.T) {
	s := sitetest.New(t).Login()
	plan := func(more ...string) map[string][]string {
		return sitetest.With(planOf(1, "free", "10"), more...)
	}
	s.Post("/policies/plans/1", plan("allow", "GET /orders/*\norders")).Wants(t,
		http.StatusUnprocessableEntity, `id="allow-error"`)
	s.Post("/policies/plans/1", plan("allow", "GET /orders/*\r\nabc/prod * /health\n")).Wants(t,
		http.StatusSeeOther)
	want := []route.Pattern{{Method: "GET", Path: "/orders/*"},
		{API: "abc", Stage: "prod", Method: "*", Path: "/health"}}
	checkPlan := func(step string) {
		t.Helper()
		if p, _ := s.Set().PlanByNumber(1); !slices.Equal(p.Allow, want) {
			t.Errorf("%s: the plan allows %v, want %v", step, p.Allow, want)
		}
	}
	checkPlan("after the save")
	s.Get("/policies/plans/1").Wants(t, http.StatusOK, "GET /orders/*\nabc/prod * /health")
	s.Get("/policies").Wants(t, http.StatusOK, "Opens GET /orders/*, abc/prod * /health")
	s.Post("/policies/plans/1", sitetest.With(planOf(2, "free", "11"))).Wants(t, http.StatusSeeOther)
	checkPlan("after a form without the field")
	s.Get("/explain?key={acme}&method=GET&path=/admin").Wants(t, http.StatusOK,
		"refused: the plan does not open this route")

	edit := func(version string, more ...string) map[string][]string {
		return sitetest.With(fields("version", version, "name", "acme", "plan", "free"), more...)
	}
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET orders")).Wants(t, http.StatusUnprocessableEntity,
		`id="allow-error"`)
	s.Post("/keys/{acme}/edit", edit("1", "allow", "GET /orders/7")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "GET /orders/7; plan: GET /orders/*")
	s.Post("/keys/{acme}/edit", edit("2", "tags", "x")).Wants(t, http.StatusSeeOther)
	seven := route.Pattern{Method: "GET", Path: "/orders/7"}
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 || k.Allow[0] != seven {
		t.Errorf("after a form without the field: the key allows %v, want %v", k.Allow, seven)
	}
	s.Get("/explain?key={acme}&method=GET&path=/orders/8").Wants(t, http.StatusOK,
		"refused: the key does not open this route")
	s.Post("/keys/{acme}/edit", edit("3", "allow", "")).Wants(t, http.StatusSeeOther)
	s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); len(k.Allow) != 1 {
		t.Errorf("after the undo: the key allows %v, want %v", k.Allow, seven)
	}
}

// recordedCall is a call of a key.
type recordedCall struct {
	key, plan string
	route.Call
	pattern string // route that API Gateway matched
	denied  bool
}

// recordCalls records n random calls of acme, bolt and core in the last hour, and returns
// them. plans maps the keys to their plans.
func recordCalls(s *sitetest.Site, plans map[string]string, n int) []recordedCall {
	random := rand.New(rand.NewPCG(7, 8))
	now := time.Now()
	var calls []recordedCall
	var outcomes []usage.Outcome
	for i := range n {
		kind := [][3]string{{"GET", "/orders/7", "/orders/{id}"}, {"HEAD", "/orders/8", "/orders/{id}"},
			{"POST", "/orders", "/orders"}, {"GET", "/health", "/health"}}[random.IntN(4)]
		key := []string{"acme", "bolt", "core"}[random.IntN(3)]
		c := recordedCall{key: key, plan: plans[key], pattern: kind[2], denied: i%3 == 0,
			Call: route.Call{API: "abc", Stage: "prod", Method: kind[0], Path: kind[1]}}
		calls = append(calls, c)
		o := usage.Outcome{Subject: s.Keys.IDs[key], Registered: true, Time: now,
			Route: routecount.Route{Plan: c.plan, API: c.API, Stage: c.Stage, Method: c.Method,
				Path: c.pattern}}
		if c.denied {
			o.Verdict = usage.Denied
		}
		outcomes = append(outcomes, o)
	}
	s.Keys.Record(outcomes...)
	return calls
}

// countRefused counts the calls that match, and those of them that the routes of a key
// and a plan would have refused. It checks each call with policy.AccessProblem, while
// previews use counts by route.
func countRefused(t *testing.T, calls []recordedCall, keyAllow, planAllow string,
	match func(recordedCall) bool) (refused, all int) {
	t.Helper()
	patterns := func(text string) (all []route.Pattern) {
		for line := range strings.Lines(text) {
			p, err := route.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	}
	k, p := policy.Key{Allow: patterns(keyAllow)}, policy.Plan{Allow: patterns(planAllow)}
	for _, c := range calls {
		if !match(c) {
			continue
		}
		all++
		if policy.AccessProblem(k, p, c.Call) != "" {
			refused++
		}
	}
	return refused, all
}

// The preview of a plan's allowed routes states how many calls of the last hour they
// would have refused, and how many refused calls they would allow.
func TestPreviewOfAllowedRoutes(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("pro", sitetest.Per(5, time.Minute))
	s.Keys.CreateKey("core", "pro")
	preview := func(allow string, want ...string) {
		t.Helper()
		s.Post("/policies/plans/1", sitetest.With(planOf(2, "free", "5"), "action", "preview", "allow",
			allow)).Wants(t, http.StatusOK, want...)
	}
	preview("GET /orders/*", "No route was called with this plan in the last hour.")
	calls := recordCalls(s, map[string]string{"acme": "free", "bolt": "free", "core": "pro"}, 300)
	for _, allow := range []string{"GET /orders/*", "abc/prod GET /health\nGET /orders/{id}",
		"other/prod GET /*", "/*", "POST /orders\nGET /health"} {
		refused, all := countRefused(t, calls, "", allow,
			func(c recordedCall) bool { return c.plan == "free" })
		preview(allow, fmt.Sprintf("this would have refused %d of the plan&#39;s %d calls for their route",
			refused, all))
	}
	orders, _ := countRefused(t, calls, "", "POST /orders\nGET /health",
		func(c recordedCall) bool { return c.plan == "free" })
	preview("GET /orders/7\nPOST /orders\nGET /health", "this would have refused 0 of",
		fmt.Sprintf("For %d other calls, it depends on the path: ", orders))

	refuse := func(name, path string, n int) {
		o := usage.Outcome{Subject: s.Keys.IDs[name], Registered: true, Time: time.Now(),
			Denial: &denylog.Denial{Cause: cause.Access, API: "abc", Stage: "prod", Method: "GET",
				Path: path}}
		s.Keys.Record(slices.Repeat([]usage.Outcome{o}, n)...)
	}
	refuse("bolt", "/reports", 4)
	refuse("core", "/reports", 1) // of another plan
	// The plan still allows every route, so this change opens none.
	preview("abc/prod GET /reports", "Of 4 calls refused for their route, this would open 0.")
	s.Post("/policies/plans/1", planOf(2, "free", "5", "allow", "GET /health")).Wants(t, http.StatusSeeOther)
	s.Post("/policies/plans/1", sitetest.With(planOf(3, "free", "5"), "action", "preview", "allow",
		"abc/prod GET /reports")).Wants(t, http.StatusOK,
		"Of 4 calls refused for their route, this would open 4.")
	got := s.Post("/policies/plans/1", sitetest.With(planOf(3, "free", "6"), "action", "preview"))
	if strings.Contains(got.Body, "for their route") {
		t.Error("a preview that changes only limits mentions routes")
	}
}

// The preview of a key's allowed routes states a lower and an upper bound of its calls
// that they would have refused. The bounds are equal if no other key has the plan.
func TestPreviewOfAllowedRoutesOfKey(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("pro", sitetest.Per(5, time.Minute))
	s.Keys.CreateKey("core", "pro")
	plans := map[string]string{"acme": "free", "bolt": "free", "core": "pro"}
	edit := func(name, allow string) string {
		t.Helper()
		return s.Post("/keys/{"+name+"}/edit", fields("version", "1", "name", name, "plan", plans[name],
			"allow", allow, "action", "preview")).Wants(t, http.StatusOK, `id="preview-title"`).Body
	}
	const noCalls = "No calls in the last hour to compare."
	if body := edit("acme", "GET /orders/*"); !strings.Contains(body, noCalls) {
		t.Errorf("the preview of a key without calls lacks %q", noCalls)
	}
	calls := recordCalls(s, plans, 300)
	written := s.Keys.Written()
	bounds := regexp.MustCompile(`refused (?:between (\d+) and )?(\d+) of the key&#39;s (\d+) calls`)
	for _, name := range []string{"acme", "core"} {
		for _, allow := range []string{"GET /orders/*", "/*", "GET /reports", "GET /orders/7"} {
			refused, all := countRefused(t, calls, allow, "",
				func(c recordedCall) bool { return c.key == name })
			found := bounds.FindStringSubmatch(edit(name, allow))
			if found == nil {
				t.Fatalf("%s, %s: the preview has no number of refused calls", name, allow)
			}
			least, _ := strconv.Atoi(cmp.Or(found[1], found[2]))
			most, _ := strconv.Atoi(found[2])
			if refused < least || refused > most || found[3] != strconv.Itoa(all) ||
				name == "core" && least != most && allow != "GET /orders/7" {
				t.Errorf("%s, %s: got %q, want %d of %d", name, allow, found[0], refused, all)
			}
		}
	}
	if body := edit("acme", ""); strings.Contains(body, "for their route") {
		t.Error("a preview without a change of routes mentions routes")
	}
	if s.Keys.Written() != written || s.Keys.Key("acme").Version != 1 {
		t.Error("a preview wrote something")
	}
}
