package dashboard

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	routing "tidegate/internal/route"
	"tidegate/internal/usage"
)

// planForm is what a browser sends for a plan with one limit per minute.
func planOf(version int64, name, requests string, more ...string) url.Values {
	return fields(append([]string{
		"version", fmt.Sprint(version), "name", name, "mode", "enforce", "degraded", "closed", "reason", "test", "action", "save",
		"limits[0].requests", requests, "limits[0].window", "1", "limits[0].unit", "minute", "limits[0].algorithm", "log",
	}, more...)...)
}

func (s *site) set() *policy.Set {
	s.t.Helper()
	set, err := s.keys.Set(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func TestPlans(t *testing.T) {
	s := newSite(t).login()
	s.get("/policies").wants(t, http.StatusOK, "free", "10 per 10 seconds", `aria-label="2 keys of free"`)
	s.get("/policies/plans/new").wants(t, http.StatusOK, `name="version" value="1"`)
	s.post("/policies/plans/new", planOf(1, "", "5")).wants(t, http.StatusUnprocessableEntity, `id="name-error"`)
	s.post("/policies/plans/new", planOf(1, "free", "5")).wants(t, http.StatusUnprocessableEntity, `id="name-error"`, "is taken")
	s.post("/policies/plans/new", planOf(1, "pro", "x")).wants(t, http.StatusUnprocessableEntity, `id="limits-0-requests-error"`)
	s.post("/policies/plans/new", with(planOf(1, "pro", "5"), "reason", "")).wants(t, http.StatusUnprocessableEntity, "Say why")
	s.post("/policies/plans/new", with(planOf(1, "pro", "5"), "degraded", "local")).wants(t, http.StatusUnprocessableEntity, `id="share-error"`)
	s.post("/policies/plans/new", with(planOf(1, "pro", "5"), "action", "add:candidate")).wants(t, http.StatusOK, `name="candidate[0].requests"`)
	if s.keys.written() != 0 {
		t.Fatal("it was written")
	}
	s.post("/policies/plans/new", with(planOf(1, "pro", "5"), "degraded", "local", "share", "20")).wants(t, http.StatusSeeOther)
	if p, _ := s.set().Plan("pro"); p.Number != 2 || p.Degraded != policy.Local || p.Share != 20 || p.Limits[0] != per(5, time.Minute) {
		t.Errorf("saved %+v", p)
	}
	s.get("/policies/plans/2").wants(t, http.StatusOK, `name="limits[0].requests" value="5"`, `name="share" value="20"`)
	s.post("/policies/plans/2", planOf(2, "business", "6")).wants(t, http.StatusSeeOther)
	s.undoOn("/policies").wants(t, http.StatusSeeOther)
	if p, _ := s.set().Numbered(2); p.Name != "pro" || p.Share != 20 {
		t.Errorf("after the undo: %+v", p)
	}
	s.get("/policies/plans/1/delete").wants(t, http.StatusOK, "Delete the plan")
	s.post("/policies/plans/1/delete", fields("version", "4", "reason", "x")).wants(t, http.StatusUnprocessableEntity, "has 2 keys")
	s.post("/policies/plans/2/delete", fields("version", "4", "reason", "x")).wants(t, http.StatusSeeOther)
	s.get("/policies/plans/2").wants(t, http.StatusNotFound)
	s.get("/policies/plans/99").wants(t, http.StatusNotFound)
	s.get("/policies/plans/x").wants(t, http.StatusNotFound)
}

// An edit of a plan acts on the next check of every key that has it.
func TestPlanEditActs(t *testing.T) {
	s := newSite(t).login()
	checker := enforce.NewChecker(s.keys.client, testPepper)
	call := enforce.Call{Kind: policy.APIKey, Subject: s.keys.ids["acme"], Secret: s.keys.secrets["acme"]}
	for i, want := range []bool{true, false} {
		if i == 1 {
			s.post("/policies/plans/1", planOf(1, "free", "1")).wants(t, http.StatusSeeOther)
		}
		if checked, err := checker.Check(t.Context(), call, nil); err != nil || checked.Allowed != want {
			t.Errorf("check %d: %+v, %v", i, checked, err)
		}
	}
}

// An edit that is based on an older version of the policies writes nothing, and shows
// both; knowing that, it can be saved.
func TestPolicyConflict(t *testing.T) {
	s := newSite(t).login()
	s.keys.plan("theirs", per(77, time.Hour))
	s.post("/policies/plans/1", planOf(1, "free", "20")).wants(t, http.StatusConflict, "<bdi>test</bdi> saved meanwhile", "plan theirs", "77 per hour",
		"plan free: limits: 10 per 10 seconds → 20 per minute", `name="version" value="2"`, `name="limits[0].requests" value="20"`, "Save mine over theirs")
	if s.keys.written() != 0 {
		t.Fatal("it was written")
	}
	s.post("/policies/plans/1", planOf(2, "free", "20")).wants(t, http.StatusSeeOther)
	if set := s.set(); len(set.Plans) != 2 || set.Plans[0].Limits[0] != per(20, time.Minute) {
		t.Errorf("saved %+v", set.Plans)
	}
	s.post("/policies/plans/1", planOf(9, "free", "30")).wants(t, http.StatusConflict)
	s.post("/policies/plans/1", with(planOf(1, "free", "30"), "version", "x")).wants(t, http.StatusBadRequest)
}

// A candidate is tried beside the plan; its would-be denials are counted, and it is
// promoted or dropped.
func TestCandidate(t *testing.T) {
	s := newSite(t).login()
	form := planOf(1, "free", "10", "candidate[0].requests", "3", "candidate[0].window", "1", "candidate[0].unit", "minute",
		"candidate[0].algorithm", "log")
	s.post("/policies/plans/1", form).wants(t, http.StatusSeeOther)
	recorder := usage.NewRecorder(usage.Options{}, time.Now)
	for i := range 8 {
		o := usage.Outcome{Subject: s.keys.ids["acme"], Registered: true, Time: time.Now()}
		if i > 2 {
			o.Verdict = usage.CandidateDenied
		}
		recorder.Record(o)
	}
	recorder.Flush(t.Context(), s.keys.client)
	s.get("/policies").wants(t, http.StatusOK, "3 per minute", "would have denied 5 of 8 calls", "/policies/plans/1/promote")
	s.get("/").wants(t, http.StatusOK, "0 in shadow, 5 by candidates")
	s.get("/policies/plans/1/promote").wants(t, http.StatusOK, "Candidate: 3 per minute.")
	s.post("/policies/plans/1/promote", fields("version", "2", "reason", "good")).wants(t, http.StatusSeeOther)
	if p, _ := s.set().Numbered(1); len(p.Candidate) != 0 || p.Limits[0] != per(3, time.Minute) {
		t.Errorf("promoted to %+v", p)
	}
	s.get("/policies/plans/1/drop").wants(t, http.StatusNotFound)
}

// The preview of a plan is played on the calls of its busiest keys; nothing is written.
func TestPlanPreview(t *testing.T) {
	s := newSite(t).login()
	now := time.Now()
	s.keys.called("acme", now.Add(-time.Minute), 9, 0)
	s.post("/policies/plans/1", with(planOf(1, "free", "5"), "action", "preview", "reason", "")).wants(t, http.StatusOK, "on the busiest key of")
	s.keys.called("bolt", now.Add(-time.Minute), 2, 0)
	s.post("/policies/plans/1", with(planOf(1, "free", "5"), "action", "preview")).wants(t, http.StatusOK,
		"plan free: limits", "would have denied 4 of 11 calls", "2 busiest keys")
	if s.keys.written() != 0 {
		t.Error("a preview wrote")
	}
}

func ruleOf(version int64, old, name, method, path string, more ...string) url.Values {
	return fields(append([]string{
		"version", fmt.Sprint(version), "rule", old, "name", name, "method", method, "path", path, "cost", "1", "mode", "enforce", "reason", "test",
		"action", "save",
	}, more...)...)
}

// Rules are listed as they win; a tie is refused with a word at the pattern.
func TestRules(t *testing.T) {
	s := newSite(t).login()
	version := int64(1)
	for _, r := range [][3]string{{"everything", "", ""}, {"orders", "get", "/orders/{proxy+}"}, {"one order", "GET", "/orders/{id}"}} {
		s.post("/policies/rules", ruleOf(version, "", r[0], r[1], r[2])).wants(t, http.StatusSeeOther)
		version++
	}
	body := s.get("/policies").wants(t, http.StatusOK, "GET /orders/{id}").body
	if a, b, c := strings.Index(body, "one order"), strings.Index(body, ">orders<"), strings.Index(body, "everything"); a > b || b > c {
		t.Errorf("the rules stand at %d, %d, %d", a, b, c)
	}
	s.post("/policies/rules", ruleOf(version, "", "tie", "GET", "/orders/{other}")).wants(t, http.StatusUnprocessableEntity,
		`id="path-error"`, "Ties with route &#34;one order&#34;")
	s.post("/policies/rules", ruleOf(version, "one order", "one order", "GET", "/orders/{proxy+}")).wants(t, http.StatusUnprocessableEntity,
		`id="path-error"`)
	s.post("/policies/rules", ruleOf(version, "", "orders", "PUT", "/x")).wants(t, http.StatusUnprocessableEntity, `id="name-error"`)
	s.post("/policies/rules", ruleOf(version, "", "bad", "GET", "orders")).wants(t, http.StatusUnprocessableEntity, `id="path-error"`)
	s.post("/policies/rules", with(ruleOf(version, "", "dear", "GET", "/x"), "cost", "11")).wants(t, http.StatusUnprocessableEntity,
		"costs 11 and could never pass")
	s.post("/policies/rules", with(ruleOf(version, "orders", "orders", "GET", "/orders/{proxy+}",
		"shared[0].requests", "7", "shared[0].window", "1", "shared[0].unit", "hour", "shared[0].algorithm",
		"log"), "cost", "2")).wants(t, http.StatusSeeOther)
	version++
	s.get("/policies/rules/edit?rule=orders").wants(t, http.StatusOK, `name="cost" value="2"`, `name="shared[0].requests" value="7"`)
	leased := with(ruleOf(version, "orders", "orders", "GET", "/orders/{proxy+}",
		"shared[0].requests", "7", "shared[0].window", "1", "shared[0].unit", "hour", "shared[0].algorithm", "log"), "lease", "16m")
	s.post("/policies/rules", leased).wants(t, http.StatusUnprocessableEntity, `id="lease-error"`, "to a quarter of the shortest window, 15 minutes")
	s.post("/policies/rules", with(leased, "lease", "soon")).wants(t, http.StatusUnprocessableEntity, `id="lease-error"`, "Type a time such as 500ms")
	s.post("/policies/rules", with(leased, "lease", "90s")).wants(t, http.StatusSeeOther)
	version++
	s.get("/policies").wants(t, http.StatusOK, "all together: 7 per hour, leased for 90 seconds")
	s.get("/policies/rules/edit?rule=orders").wants(t, http.StatusOK, `name="lease" value="90s"`)
	s.get("/policies/rules/edit?rule=none").wants(t, http.StatusNotFound)
	s.post("/policies/rules/delete?rule=orders", fields("version", fmt.Sprint(version), "reason", "gone")).wants(t, http.StatusSeeOther)
	if set := s.set(); len(set.Routes) != 2 {
		t.Errorf("routes %+v", set.Routes)
	}
}

func sharedOf(version string, more ...string) url.Values {
	form := fields("version", version, "perIPMode", "enforce", "globalMode", "shadow", "reason", "test", "action", "save", "deny", "", "allow", "",
		"exempt", "")
	return with(form, more...)
}

func TestShared(t *testing.T) {
	s := newSite(t).login()
	s.get("/policies/shared").wants(t, http.StatusOK)
	for field, value := range map[string]string{"deny": "nonsense", "allow": "10.0.0.1/8", "exempt": "1.2.3.4/99", "denials": "1",
		"tokenPlan": "none", "globalMode": "x", "globalLease": "1s"} {
		s.post("/policies/shared", sharedOf("1", field, value)).wants(t, http.StatusUnprocessableEntity, `id="`+field+`-error"`)
	}
	form := sharedOf("1", "deny", "198.51.100.0/24\r\n2001:db8::/32, 192.0.2.7", "tokenPlan", "free", "denials", "100", "window", "1m", "first",
		"5m", "most", "1d",
		"perIP[0].requests", "50", "perIP[0].window", "1", "perIP[0].unit", "minute", "perIP[0].algorithm", "log",
		"global[0].requests", "5000", "global[0].window", "1", "global[0].unit", "minute", "global[0].algorithm", "log", "globalLease", "500ms")
	s.post("/policies/shared", form).wants(t, http.StatusSeeOther)
	set := s.set()
	if len(set.Deny) != 3 || set.Deny[2] != netip.MustParsePrefix("192.0.2.7/32") || set.TokenPlan != "free" || set.Bans == nil ||
		set.Bans.Denials != 100 {
		t.Errorf("saved %+v", set)
	}
	page := s.get("/policies").wants(t, http.StatusOK, "198.51.100.0/24, 2001:db8::/32", "100 denied calls in 1m ban for 5m", "50 per minute",
		"5,000 per minute, leased for 500 milliseconds; shadow")
	s.get("/policies/shared").wants(t, http.StatusOK, "2001:db8::/32", `name="denials" value="100"`, `name="globalLease" value="500ms"`)
	s.post(undoInPage.FindStringSubmatch(page.body)[1], nil).wants(t, http.StatusSeeOther)
	if set := s.set(); len(set.Deny) != 0 || set.Bans != nil {
		t.Errorf("after the undo: %+v", set)
	}
}

// Explain says which rule wins and why, how full every limit is, and what the client
// gets.
func TestExplain(t *testing.T) {
	s := newSite(t).login()
	s.keys.save(func(set *policy.Set) {
		set.Routes = []policy.Route{
			{Name: "orders", Pattern: routing.Pattern{Path: "/orders/{proxy+}"}, Cost: 1},
			{Name: "one order", Pattern: routing.Pattern{Path: "/orders/{id}"}, Cost: 3, PerKey: []limiter.Limit{per(4, time.Hour)}},
		}
		set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	})
	s.get("/explain").wants(t, http.StatusOK)
	s.get("/explain?key={acme}&path=/orders/7").wants(t, http.StatusOK, "won: it has exactly one segment", "lost to", "The call costs 3.",
		"the key, on this rule", "4 per hour", "allowed", "RateLimit-Policy:")
	s.keys.use("acme", 8)
	s.get("/explain?key={acme}&path=/orders/7").wants(t, http.StatusOK, "denied: the next call is free in 10.0 s", "HTTP/1.1 429", "Retry-After: 10",
		"<b>8</b> of 10")
	s.get("/explain?key={acme}&path=/else").wants(t, http.StatusOK, "No route rule matches")
	s.get("/explain?key={acme}&address=198.51.100.7").wants(t, http.StatusOK, "refused: the address is in the list of those refused", "HTTP/1.1 401")
	s.get("/explain?key={acme}&path=orders").wants(t, http.StatusUnprocessableEntity, `id="path-error"`)
	s.get("/explain?key={acme}&address=here").wants(t, http.StatusUnprocessableEntity, `id="address-error"`)
	s.get("/explain?key=nobody").wants(t, http.StatusUnprocessableEntity, "No key has this id.")
	secret := s.keys.secrets["acme"].Reveal()
	if got := s.get("/explain?key="+secret).wants(t, http.StatusUnprocessableEntity, "That was the whole secret"); strings.Contains(got.body, secret) {
		t.Error("the page shows the secret")
	}
	if s.keys.written() != 0 {
		t.Error("explaining wrote")
	}
}

func TestOverview(t *testing.T) {
	s := newSite(t).login()
	s.get("/").wants(t, http.StatusOK, "No calls counted yet", "curl -i")
	s.keys.called("acme", time.Now(), 90, 10)
	s.keys.called("bolt", time.Now(), 5, 20)
	for _, path := range []string{"/", "/?range=5m", "/?range=24h", "/?range=7d", "/?range=odd"} {
		s.get(path).wants(t, http.StatusOK, "<b class=\"big\">125</b>", "95 allowed and 30 blocked", ">acme<", ">bolt<", "24 %")
	}
	body := s.get("/").body
	busiest, blocked := strings.Index(body, `id="busiest"`), strings.Index(body, `id="most-blocked"`)
	if first := strings.Index(body[busiest:], "acme"); first > strings.Index(body[busiest:], "bolt") {
		t.Error("acme is not the busiest")
	}
	if first := strings.Index(body[blocked:], "bolt"); first > strings.Index(body[blocked:], "acme") {
		t.Error("bolt is not the most blocked")
	}
	from, to := time.Now().Add(-2*time.Hour).UTC().Format(time.RFC3339), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	s.get("/?"+url.Values{"from": {from}, "to": {to}}.Encode()).wants(t, http.StatusOK, "No calls counted yet")
	s.keys.server.SetTime(time.Now()) // the audit's entries are of the hour that the page shows
	s.post("/policies/plans/1", planOf(1, "free", "7")).wants(t, http.StatusSeeOther)
	s.get("/").wants(t, http.StatusOK, "plan free: limits")
	if got := s.refresh("/?live=5").wants(t, http.StatusOK, `<section id="live"`, "125 calls, 30 blocked"); strings.Contains(got.body, "<html") {
		t.Error("a refresh is a whole page")
	}
}
