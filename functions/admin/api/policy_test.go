package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"tidegate/functions/admin/app"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// fill saves a policy that uses every kind of setting.
func (s *service) fill() {
	s.t.Helper()
	set, err := s.keys.Set(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	set.Plans = append(set.Plans, policy.Plan{Name: "pro", Degraded: policy.Local, Share: 20,
		Limits: limitsOf("100 per 10 seconds, denied calls count",
			"1,000,000 per calendar month (Europe/Berlin)", "200 per minute, each group, shadow"),
		Opens: []route.Pattern{{Method: "GET"}, {Path: "/chat/*"}}})
	set.Limits = limitsOf("1,000 per minute, each address, shadow", "1,000,000 per second, together",
		"30 per minute, on chat, each caller and {id}",
		"600 calls per minute, on chat, except health, together",
		"50,000 input per minute, each caller, notify at 80/100 %")
	set.Routes = []limits.Route{
		{Name: "chat",
			Match: []route.Pattern{{API: "abc", Stage: "prod", Method: "POST", Path: "/chat/{id}"}},
			Cost:  limits.Costs{Units: map[string]int64{limits.Cost: 5, "input": 500}}, Settle: true},
		{Name: "health", Match: []route.Pattern{{Method: "GET", Path: "/health"}, {Path: "/up"}},
			Cost: limits.Costs{Free: true}},
	}
	set.Deny = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	set.Exempt = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	set.TokenPlan, set.AddressPlan = "pro", "free"
	if _, err := s.keys.SaveSet(s.t.Context(), *set, byTest); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) set() string {
	s.t.Helper()
	set, err := s.keys.Set(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(set)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// A policy that is read as JSON or YAML can be saved unchanged, which writes nothing.
func TestPolicyRoundTrip(t *testing.T) {
	s := newService(t)
	s.fill()
	before := s.set()
	read := s.get("/policy").wants(http.StatusOK)
	same := s.do(http.MethodPut, "/policy?reason=same", []byte(read.text),
		header{"If-Match": read.header.Get("ETag")}).wants(http.StatusOK,
		`"applied":false`, `"changes":[]`)
	if same.header.Get("ETag") != read.header.Get("ETag") {
		t.Errorf("got ETag %v, want %s", same.header, read.header.Get("ETag"))
	}
	file := s.get("/policy.yaml").
		wants(http.StatusOK, "\n      - 1,000,000 per calendar month (Europe/Berlin)\n",
			"\n      - abc/prod POST /chat/{id}\n", "\n  - 30 per minute, on chat, each caller and {id}\n",
			"\n      input: 500\n")
	if file.header.Get("Content-Type") != "application/yaml" ||
		file.header.Get("ETag") != read.header.Get("ETag") {
		t.Errorf("got %v, want YAML with ETag %s", file.header, read.header.Get("ETag"))
	}
	s.putFile("?reason=same", file.text, nil).wants(http.StatusOK, `"applied":false`, `"changes":[]`)
	if after := s.set(); after != before {
		t.Errorf("got  %s\nwant %s", after, before)
	}
}

func (s *service) putFile(query, text string, headers header) reply {
	s.t.Helper()
	all := header{"Content-Type": "application/yaml"}
	for name, value := range headers {
		all[name] = value
	}
	return s.do(http.MethodPut, "/policy.yaml"+query, []byte(text), all)
}

// A save needs the version that it is based on and a reason. A dry run returns the same
// changes and writes nothing.
func TestPutPolicy(t *testing.T) {
	s := newService(t)
	before := s.set()
	body := map[string]any{"plans": []any{
		map[string]any{"name": "free", "limits": []any{map[string]any{"requests": 20, "window": "10m"}}},
		map[string]any{"name": "new", "limits": []any{map[string]any{"requests": 1, "window": "1d"}}},
	}}
	put := func(query string, headers header) reply {
		t.Helper()
		return s.do(http.MethodPut, "/policy"+query, body, headers)
	}
	put("?reason=x", nil).wants(http.StatusPreconditionRequired)
	put("", header{"If-Match": `"2"`}).wants(http.StatusUnprocessableEntity, "query.reason")
	put("?reason=x", header{"If-Match": `"7"`}).wants(http.StatusPreconditionFailed, `"currentVersion":2`,
		`"givenVersion":7`)
	put("?reason=x", header{"If-Match": `W/"2"`}).wants(http.StatusPreconditionFailed, `"currentVersion":2`)
	put("?reason=x", header{"If-Match": `1`}).wants(http.StatusPreconditionFailed)
	put("?dryrun=true&reason=x", header{"If-Match": `"2"`}).wants(http.StatusUnprocessableEntity,
		"query.dryrun")
	changes :=
		`"changes":[{"of":"plan free","field":"limits","before":"10 per 10 minutes","after":"20 per 10 minutes"},` +
			`{"of":"plan new","before":"","after":"1 per day; closed: calls are denied"}]`
	put("?dry_run=true", nil).wants(http.StatusOK, `"applied":false`, `"version":2`, changes,
		`plan free: limits: 10 per 10 minutes → 20 per 10 minutes\n`)
	put("?dry_run=true", header{"If-Match": `"7"`}).wants(http.StatusPreconditionFailed)
	valid, plan := body, func(name string, requests int) any { // two plans of one number
		return map[string]any{"number": 1, "name": name, "limits": []any{
			map[string]any{"requests": requests, "window": "10m"}}}
	}
	body = map[string]any{"plans": []any{plan("free", 10), plan("gold", 900)}}
	put("?dry_run=true", nil).wants(http.StatusUnprocessableEntity, "body.plans[1].number")
	put("?reason=x", header{"If-Match": "*"}).wants(http.StatusUnprocessableEntity, "body.plans[1].number")
	body = valid
	if s.set() != before {
		t.Fatalf("a refused save or a dry run wrote %s", s.set())
	}
	saved := put("?reason=more+room", header{"If-Match": `"2"`}).wants(http.StatusOK, `"applied":true`,
		`"version":3`, changes)
	if e, _ := s.newest(app.PolicyRecord); saved.header.Get("ETag") != `"3"` || e.Reason != "more room" ||
		e.By.Name != "ada" {
		t.Errorf("got %v, %+v, want version 2 and an entry with the reason", saved.header, e)
	}
	s.create("user of free")
	body["plans"] = body["plans"].([]any)[1:]
	put("?reason=x", header{"If-Match": `"3"`}).wants(http.StatusUnprocessableEntity, `keys use it (1)`)
	s.get("/plans").wants(http.StatusOK, `"name":"free"`, `"keys":1`)
}

// Of two concurrent saves based on the same version, one gets 412.
func TestPolicyRace(t *testing.T) {
	s := newService(t)
	for round := range 8 {
		version := s.get("/policy").header.Get("ETag")
		statuses := make(chan int, 2)
		for i := range cap(statuses) {
			go func() {
				body := fmt.Sprintf(`{"plans":[{"name":"free","limits":[{"requests":%d,"window":"10m"}]}]}`,
					100+2*round+i)
				statuses <- s.send(http.MethodPut, "/policy?reason=race", []byte(body),
					header{"If-Match": version}).status
			}()
		}
		if a, b := <-statuses, <-statuses; a+b != http.StatusOK+http.StatusPreconditionFailed {
			t.Fatalf("round %d: got %d and %d, want 200 and 412", round, a, b)
		}
	}
}

// A plan that is renamed, by its number in JSON or by was in a file, keeps its keys.
func TestRenamePlan(t *testing.T) {
	s := newService(t)
	k := s.create("member")
	body := []byte(`{"plans":[{"number":1,"name":"basic","limits":[{"requests":10,"window":"10m"}]}]}`)
	s.do(http.MethodPut, "/policy?reason=rename", body, header{"If-Match": "*"}).wants(http.StatusOK,
		`plan basic: name: free → basic`)
	s.putFile("?reason=rename", "version: 4\nplans:\n  - name: starter\n    was: basic\n    limits: [10 "+
		"per 10 minutes]\n", nil).
		wants(http.StatusOK, `plan starter: name: basic → starter`, `"version":5`)
	if got, err := s.keys.Get(t.Context(), k.ID); err != nil || got.Plan != "starter" {
		t.Errorf("got %+v, %v, want plan starter", got, err)
	}
}

// An import is based on the version in If-Match, or on the one in the file. Its dry run
// returns the same changes.
func TestImport(t *testing.T) {
	s := newService(t)
	file := "version: 2\nplans:\n  - name: free\n    limits:\n      - 20 per 10 minutes\n"
	change := `plan free: limits: 10 per 10 minutes → 20 per 10 minutes`
	s.putFile("?dry_run=true", file, nil).wants(http.StatusOK, change, `"applied":false`)
	s.putFile("", file, nil).wants(http.StatusUnprocessableEntity, "query.reason")
	s.putFile("?reason=x", strings.TrimPrefix(file, "version: 2\n"),
		nil).wants(http.StatusPreconditionRequired)
	s.putFile("?reason=x", strings.Replace(file, "2", "9", 1), nil).wants(http.StatusPreconditionFailed,
		`"givenVersion":9`, `"currentVersion":2`)
	s.putFile("?reason=x", file, header{"If-Match": `"3"`}).wants(http.StatusPreconditionFailed)
	if set, err := s.keys.Set(t.Context()); err != nil || set.Version != 2 {
		t.Fatalf("a refused import or a dry run wrote %+v, %v", set, err)
	}
	s.putFile("?reason=x", file, nil).wants(http.StatusOK, change, `"applied":true`, `"version":3`)
	s.putFile("?reason=x", file, nil).wants(http.StatusOK, `"applied":false`, `"version":3`) // sent again
	s.putFile("?reason=x", strings.Replace(file, "20", "30", 1),
		header{"If-Match": `"3"`}).wants(http.StatusOK, `"version":4`)
	for name, row := range map[string]struct {
		text   string
		status int
		want   string
	}{
		"unknown field": {"version: 4\nplnas: []\n", 422, `"line":2`},
		"alias":         {"deny: &a [10.0.0.0/8]\nallow: *a\n", 422, "anchor"},
		"duplicate":     {"version: 4\nversion: 4\n", 422, `"line":2`},
		"documents":     {"version: 4\n---\nversion: 4\n", 422, "second document"},
		"invalid limit": {"version: 4\nplans:\n  - name: free\n    limits:\n      - 0 per second\n",
			422, `"line":5`},
		"empty": {"", 400, ""},
		"large": {"# " + strings.Repeat("x", MaxPolicyBody), 413, "too large"},
	} {
		for _, query := range []string{"?dry_run=true", "?reason=x"} {
			if r := s.putFile(query, row.text, nil); r.status != row.status ||
				!strings.Contains(r.text, row.want) {
				t.Errorf("%s: got %d %s, want %d %s", name, r.status, r.text, row.status, row.want)
			}
		}
	}
	s.do(http.MethodPut, "/policy.yaml?dry_run=true", []byte(file),
		nil).wants(http.StatusUnsupportedMediaType)
}

// A request has limits in words or as fields, and the answer has fields. Each mistake has
// its place.
func TestLimitsAsJSON(t *testing.T) {
	s := newService(t)
	put := func(limit any) reply {
		t.Helper()
		return s.do(http.MethodPut, "/policy?reason=x", map[string]any{
			"plans": []any{map[string]any{"name": "free", "limits": []any{"10 per minute", limit}}},
			"routes": []any{map[string]any{"name": "chat", "match": []any{map[string]any{"path": "/chat"}},
				"cost": map[string]any{"input": 40}}},
		}, header{"If-Match": "*"})
	}
	for _, c := range []struct {
		limit any
		want  []string
	}{
		{"500 requests per minute", []string{`"body.plans[0].limits[1]"`, "500 calls per minute"}},
		{"500 per minute, on chta", []string{`"body.plans[0].limits[1].on"`, "did you mean chat?"}},
		{"5 input per minute", []string{`"body.plans[0].limits[1].requests"`, "costs 40 and could never pass"}},
		{"500 per minute, on chat, on chat", []string{"a limit has one"}},
		{map[string]any{"requests": 1, "window": "1m", "mode": "shadow"},
			[]string{`"body.plans[0].limits[1].mode"`, `\"shadow\": true`}},
		{map[string]any{"requests": 1, "window": "1m", "slots": 100},
			[]string{`"body.plans[0].limits[1].slots"`, "limits to 1,000 are exact"}},
		{map[string]any{"requests": "many", "window": "1m"},
			[]string{`"body.plans[0].limits[1].requests"`, "whole number"}},
		{map[string]any{"requests": 1, "window": "fast"}, []string{`"body.plans[0].limits[1].window"`}},
		{7, []string{`"body.plans[0].limits[1]"`}},
		{nil, []string{`"body.plans[0].limits[1]"`}},
	} {
		put(c.limit).wants(http.StatusUnprocessableEntity, c.want...)
	}
	put("500 calls per minute, on chat").wants(http.StatusOK, "10 per minute; 500 calls per minute, on chat")
	put(map[string]any{"requests": 500, "unit": "calls", "window": "1m", "on": "chat"}).wants(http.StatusOK,
		`"changes":[]`)
	s.get("/policy").wants(http.StatusOK,
		`"limits":[{"requests":10,"window":"1m"},{"requests":500,"unit":"calls","window":"1m","on":"chat"}]`,
		`"cost":{"input":40}`, `"id":"chat"`)
}

// A dry run and a save say which limits begin a new count.
func TestNewCounts(t *testing.T) {
	s := newService(t)
	put := func(query string, limits ...any) reply {
		t.Helper()
		return s.do(http.MethodPut, "/policy"+query, map[string]any{"plans": []any{
			map[string]any{"name": "free", "limits": limits}}}, header{"If-Match": "*"})
	}
	for _, query := range []string{"?dry_run=true", "?reason=x"} {
		put(query, "30 per minute", "10 per 10 minutes, on GET /a").wants(http.StatusOK,
			`"newCounts":[{"of":"plan free","limit":"10 per 10 minutes, on GET /a"}]`,
			`plan free: 10 per 10 minutes, on GET /a: starts at zero\n`)
	}
	put("?dry_run=true", "40 per minute", "90 per 10 minutes, on GET /a").wants(http.StatusOK, `"newCounts":[]`)
}

// A route that is renamed, by its ID in JSON or by was in a file, keeps its ID. The ID of
// none is refused.
func TestRenameRoute(t *testing.T) {
	s := newService(t)
	s.fill()
	document := s.get("/policy").wants(http.StatusOK)
	renamed := strings.NewReplacer(`"name":"chat"`, `"name":"talk"`, `"on":"chat"`, `"on":"talk"`).
		Replace(document.text)
	s.do(http.MethodPut, "/policy?reason=rename", []byte(renamed), header{"If-Match": "*"}).
		wants(http.StatusOK, `"newCounts":[]`, "route talk: name: chat → talk")
	s.get("/policy").wants(http.StatusOK, `"id":"chat","name":"talk"`)
	file := strings.NewReplacer("- name: talk\n", "- name: say\n    was: talk\n", "on talk", "on say").
		Replace(s.get("/policy.yaml").text)
	s.putFile("?reason=rename", file, nil).wants(http.StatusOK, `"newCounts":[]`, "route say: name: talk → say")
	s.get("/policy").wants(http.StatusOK, `"id":"chat","name":"say"`)
	s.do(http.MethodPut, "/policy?reason=x", []byte(strings.ReplaceAll(renamed, `"id":"chat"`, `"id":"x"`)),
		header{"If-Match": "*"}).wants(http.StatusUnprocessableEntity, "body.routes[0].id")
}

// A save is judged alike by JSON, YAML and revert: with warnings, a dry run and the save need
// accept.
func TestWarnings(t *testing.T) {
	s := newService(t)
	const warning = "Every call is refused: no address is allowed."
	yaml := "plans: [{name: free, limits: [10 per second]}]\ndeny: [0.0.0.0/0, '::/0']\n"
	var body map[string]any
	if err := json.Unmarshal([]byte(s.get("/policy").wants(http.StatusOK).text), &body); err != nil {
		t.Fatal(err)
	}
	body["deny"] = []string{"0.0.0.0/0", "::/0"}
	star := header{"If-Match": "*"}
	s.do(http.MethodPut, "/policy?dry_run=true", body, nil).wants(http.StatusConflict, warning, "accept=true")
	s.do(http.MethodPut, "/policy?dry_run=true&accept=true", body, nil).wants(http.StatusOK,
		`"applied":false`, `"warnings":["`+warning)
	s.do(http.MethodPut, "/policy?reason=x", body, star).wants(http.StatusConflict, warning, "accept=true")
	s.putFile("?dry_run=true", yaml, nil).wants(http.StatusConflict, warning)
	s.putFile("?dry_run=true&accept=true", yaml, nil).wants(http.StatusOK, warning)
	s.putFile("?reason=x", yaml, star).wants(http.StatusConflict, warning)
	if v := s.set(); strings.Contains(v, "0.0.0.0/0") {
		t.Fatalf("saved without accept: %s", v)
	}
	s.putFile("?reason=x&accept=true", yaml, star).wants(http.StatusOK, `"applied":true`)
	s.putFile("?reason=x", strings.Replace(yaml, "deny", "exempt", 1), star).wants(http.StatusOK, `"warnings":[]`)
	undone := fmt.Sprint(s.get("/audit?subject=policy").at("items", 0, "number"))
	undo := map[string]any{"reason": "oops"}
	s.post("/audit/"+undone+"/undo", undo).wants(http.StatusConflict, warning)
	s.post("/audit/"+undone+"/undo?accept=true", undo).wants(http.StatusNoContent)
}

// A dry run refuses what the save refuses.
func TestDryRunEqualsSave(t *testing.T) {
	s := newService(t)
	s.create("a")
	plan := func(number int, name string) map[string]any {
		return map[string]any{"number": number, "name": name,
			"limits": []map[string]any{{"requests": 10, "window": "1s"}}}
	}
	for what, plans := range map[string][]map[string]any{
		"one number twice":            {plan(1, "free"), plan(1, "pro")},
		"an unknown number":           {plan(1, "free"), plan(7, "x")},
		"a plan with keys is missing": {plan(0, "pro")},
	} {
		body := map[string]any{"plans": plans}
		dry := s.do(http.MethodPut, "/policy?dry_run=true", body, nil).wants(http.StatusUnprocessableEntity)
		saved := s.do(http.MethodPut, "/policy?reason=x", body, header{"If-Match": "*"})
		if saved.wants(http.StatusUnprocessableEntity).text != dry.text {
			t.Errorf("%s: dry run %s, save %s", what, dry.text, saved.text)
		}
	}
}
