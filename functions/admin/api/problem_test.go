package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tidegate/internal/limits"
	"tidegate/internal/registry"

	"tidegate/functions/admin/api/rest"
)

// An invalid request gets a problem with the location and the bound, and changes nothing.
func TestProblems(t *testing.T) {
	s := newService(t)
	k := s.create("acme")
	_, secret, err := s.keys.Rotate(t.Context(), k.ID, k.Version, 0, byTest)
	if err != nil {
		t.Fatal(err)
	}
	match := header{"If-Match": "*"}
	keyPath := "/keys/" + k.ID
	for name, row := range map[string]struct {
		method, path, body string
		headers            header
		status             int
		wants              []string
	}{
		"no such key":      {"GET", "/keys/ZZZZZZZZZZZZ", "", nil, 404, []string{"Key not found"}},
		"odd key":          {"GET", "/keys/%7Btag%7D", "", nil, 404, nil},
		"the set as a key": {"GET", "/keys/policy", "", nil, 404, nil},
		"a secret as a key": {"GET", "/keys/" + secret.Reveal(), "", nil, 422,
			[]string{"path.id", "whole secret"}},
		"count too small":   {"GET", "/keys?count=0", "", nil, 422, []string{"query.count", ">= 1"}},
		"count too large":   {"GET", "/keys?count=501", "", nil, 422, []string{"query.count", "<= 500"}},
		"count no number":   {"GET", "/keys?count=ten", "", nil, 422, []string{"query.count"}},
		"unknown parameter": {"GET", "/keys?prefx=a", "", nil, 422, []string{"query.prefx", "unknown"}},
		"parameter twice":   {"GET", "/keys?count=5&count=6", "", nil, 422, []string{"2 times"}},
		"odd query":         {"GET", "/keys?prefix=50%", "", nil, 422, []string{"query", "%25"}},
		"parameter without a value": {"PUT", "/policy?dry_run&reason=x", `{"plans":[]}`, match, 422,
			[]string{"query.dry_run", "true"}},
		"number without a value": {"GET", "/keys?count=", "", nil, 422, []string{"query.count", "value"}},
		"unknown state":          {"GET", "/keys?state=odd", "", nil, 422, []string{"query.state"}},
		"unknown plan":           {"GET", "/keys?plan=gold", "", nil, 422, []string{"query.plan", "no plan"}},
		"odd cursor":             {"GET", "/keys?after=!", "", nil, 422, []string{"query.after"}},
		"no body":                {"POST", "/keys", "", nil, 400, []string{"body is required"}},
		"no JSON":                {"POST", "/keys", `{"name":`, nil, 400, []string{`"location":"body"`}},
		"two bodies":             {"POST", "/keys", `{} {}`, nil, 400, nil},
		"not UTF-8": {"POST", "/keys", "{\"name\":\"\xff\",\"plan\":\"free\"}", nil, 400,
			[]string{"UTF-8"}},
		"a name twice": {"POST", "/keys", `{"name":"a","plan":"free","name":"b"}`, nil, 400,
			[]string{"twice"}},
		"a nested name twice": {"PUT", "/policy?dry_run=true",
			`{"plans":[{"name":"a","limits":[{"requests":1,"window":"1s","requests":2}]}]}`, nil, 400,
			[]string{"twice"}},
		"a name in another case": {"POST", "/keys", `{"name":"a","plan":"free","Name":"b"}`, nil, 422,
			[]string{"body.Name"}},
		"many fields": {"PUT", "/policy?dry_run=true", "{" + manyFields(`"f%x":1,`) + `"a":1}`, nil, 400,
			[]string{"more than 64 fields"}},
		"many nested fields": {
			"PUT", "/policy?dry_run=true", `{"plans":[{` + manyFields(`"f%x":1,`) + `"a":1}]}`, nil, 400,
			[]string{"more than 64 fields"},
		},
		"many values in YAML": {
			"PUT", "/policy.yaml?dry_run=true", "deny: [" + strings.Repeat("a,", 500_000) + "]",
			header{"Content-Type": "application/yaml"}, 400, []string{"more values than any policy"},
		},
		"many fields in YAML": {
			"PUT", "/policy.yaml?dry_run=true", manyFields("f%x: 1\n"),
			header{"Content-Type": "application/yaml"}, 422, []string{`unknown field \"f0\"`},
		},
		"too deep": {"POST", "/keys", strings.Repeat("[", 5000), nil, 400,
			[]string{"nested deeper"}},
		"unknown field": {"POST", "/keys", `{"name":"a","plan":"free","colour":"red"}`, nil, 422,
			[]string{"body.colour", "unexpected property"}},
		"former field": {"PUT", "/policy?dry_run=true", `{"plans":[],"global":{"limits":[]}}`, nil, 422,
			[]string{"body.global", "unexpected property: write it among limits",
				"5,000 per second, together"}},
		"former field of a plan": {"PUT", "/policy?dry_run=true", `{"plans":[{"name":"a","allow":[]}]}`, nil, 422,
			[]string{"body.plans[0].allow", "unexpected property: write opens"}},
		"former field of a route": {"PUT", "/policy?dry_run=true",
			`{"plans":[],"routes":[{"name":"a","match":[{}],"settleMax":1}]}`, nil, 422,
			[]string{"body.routes[0].settleMax", "at most 10 times the estimate"}},
		"former field of a key": {"POST", "/keys", `{"name":"a","plan":"free","allow":[]}`, nil, 422,
			[]string{"body.allow", "unexpected property: write opens"}},
		"missing field": {"POST", "/keys", `{"name":"a"}`, nil, 422, []string{"required property plan"}},
		"name too long": {"POST", "/keys", `{"name":"` + strings.Repeat("x", 101) + `","plan":"free"}`,
			nil, 422, []string{"body.name", "<= 100"}},
		"name of blanks": {"POST", "/keys", `{"name":"  ","plan":"free"}`, nil, 422,
			[]string{"body.name", "1 to 100"}},
		"name with controls": {"POST", "/keys", `{"name":"a\u0000b","plan":"free"}`, nil, 422,
			[]string{"body.name", "cannot be printed"}},
		"name with a text direction override": {"POST", "/keys", `{"name":"a\u202eb","plan":"free"}`, nil, 422,
			[]string{"body.name", "cannot be printed"}},
		"env": {"POST", "/keys", `{"name":"a","plan":"free","env":"A B"}`, nil, 422, []string{"body.env"}},
		"too many tags": {"POST", "/keys",
			`{"name":"a","plan":"free","tags":["1","2","3","4","5","6","7","8","9","10","11"]}`, nil, 422,
			[]string{"body.tags", "<= 10"}},
		"tag too long": {"POST", "/keys", `{"name":"a","plan":"free","tags":["` + strings.Repeat("x", 51) +
			`"]}`, nil, 422,
			[]string{"body.tags[0]", "50"}},
		"tag with a comma": {"POST", "/keys", `{"name":"a","plan":"free","tags":["a","b, c"]}`, nil, 422,
			[]string{"body.tags[1]", "comma"}},
		"tag after a blank": {"PATCH", keyPath, `{"tags":[" a"]}`, match, 422, []string{"body.tags[0]", "space"}},
		"tag twice":         {"PATCH", keyPath, `{"tags":["a","a"]}`, match, 422, []string{"body.tags[1]", "twice"}},
		"bulk tag with a comma": {"POST", "/bulk/tag", `{"filter":{},"change":{"reason":"x","tags":["b,c"]}}`, nil, 422,
			[]string{"body.change.tags[0]", "comma"}},
		"no such plan": {"POST", "/keys", `{"name":"a","plan":"gold"}`, nil, 422,
			[]string{"body.plan", "no plan"}},
		"invalid time": {"POST", "/keys", `{"name":"a","plan":"free","expires":"tomorrow"}`, nil, 422,
			[]string{"body.expires", "RFC 3339"}},
		"late time": {"POST", "/keys", `{"name":"a","plan":"free","expires":"9999-01-01T00:00:00Z"}`, nil, 422,
			[]string{"body.expires", "2200"}},
		"late ban": {"POST", keyPath + "/ban", `{"until":"9999-01-01T00:00:00Z","reason":"x"}`, nil, 422,
			[]string{"body.until", "2200"}},
		"late expiry of keys": {"POST", "/bulk/expiry",
			`{"filter":{},"change":{"reason":"x","expires":"9999-01-01T00:00:00Z"}}`, nil, 422,
			[]string{"body.change.expires", "2200"}},
		"time of a query": {"GET", "/denials?from=yesterday", "", nil, 422,
			[]string{"query.from", "RFC 3339"}},
		"past expiry": {"POST", "/keys", `{"name":"a","plan":"free","expires":"2016-01-01T00:00:00Z"}`, nil, 422,
			[]string{"body.expires", "is 2016-01-01T00:00:00Z: must be in the future", "revoke it"}},
		"expiry moved to the past": {"PATCH", keyPath, `{"expires":"2016-01-01T00:00:00Z"}`, match, 422,
			[]string{"body.expires", "in the future"}},
		"zero expiry of keys": {"POST", "/bulk/expiry",
			`{"filter":{},"change":{"reason":"x","expires":"0001-01-01T00:00:00Z"}}`, nil, 422,
			[]string{"body.change.expires", "in the future"}},
		"null name": {"PATCH", keyPath, `{"name":null}`, match, 422, []string{"body.name", "null"}},
		"null plan": {"PATCH", keyPath, `{"plan":null}`, match, 422, []string{"body.plan", "null"}},
		"blank reason of a ban": {"POST", keyPath + "/ban", `{"until":"2100-01-01T00:00:00Z","reason":" "}`, nil,
			422, []string{"body.reason", "blank"}},
		"blank reason of a job": {"POST", "/bulk/revoke", `{"ids":["` + k.ID + `"],"change":{"reason":" "}}`, nil, 422,
			[]string{"body.change.reason", "required"}},
		"no such group": {"GET", "/groups/none", "", nil, 404, []string{"No such group"}},
		"past override": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1,"window":"1s"}],"until":"2016-01-01T00:00:00Z","reason":"x"}`, match, 422,
			[]string{"body.until", "in the future", "delete it"}},
		"past override of keys": {"POST", "/bulk/override", `{"filter":{},"change":` +
			`{"limits":[{"requests":1,"window":"1s"}],"until":"2016-01-01T00:00:00Z","reason":"x"}}`, nil, 422,
			[]string{"body.change.until", "in the future"}},
		"form": {"POST", "/keys", `name=a`, header{"Content-Type": "application/x-www-form-urlencoded"}, 415,
			[]string{"application/json"}},
		"CBOR": {"POST", "/keys", "\xa0", header{"Content-Type": "application/cbor"}, 415, nil},
		"large": {"POST", "/keys", `{"name":"` + strings.Repeat("x", rest.MaxBody), nil, 413,
			[]string{"too large"}},
		"requests": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":0,"window":"1s"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].requests", "must be 1 to 1,000,000,000"}},
		"requests too many": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1e10,"window":"1s"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].requests", "must be a whole number"}},
		"fraction of requests": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1.5,"window":"1s"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].requests", "must be a whole number"}},
		"window": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1,"window":"soon"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].window", "such as 10s"}},
		"window too long": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1,"window":"10000h"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].window", "366 days"}},
		"algorithm": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1,"window":"1s","algorithm":"magic"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].algorithm"}},
		"calendar of a log": {"PUT", keyPath + "/override",
			`{"limits":[{"requests":1,"calendar":"day","algorithm":"log"}],"reason":"x"}`, match, 422,
			[]string{"body.limits[0].algorithm"}},
		"limit of a group": {"PUT", keyPath + "/override",
			`{"limits":["5 per second, each group"],"reason":"x"}`, match, 422,
			[]string{"body.limits[0]", "an override has limits of each caller"}},
		"former mode": {"PUT", keyPath + "/override", `{"mode":"off","reason":"x"}`, match, 422,
			[]string{"body.mode", "100 per minute, shadow"}},
		"too many limits": {"PUT", keyPath + "/override",
			`{"limits":[` + strings.Repeat(`"1 per second",`, 32) + `"1 per second"],"reason":"x"}`, match, 422,
			[]string{"body.limits", "<= 32"}},
		"no reason": {"PUT", keyPath + "/override", `{"limits":[{"requests":1,"window":"1s"}]}`,
			match, 422, []string{"reason"}},
		"reason too long": {"PATCH", keyPath, `{"reason":"` + strings.Repeat("x", 201) + `"}`, match, 422,
			[]string{"body.reason", "200"}},
		"reason in the query too long": {"DELETE", keyPath + "?reason=" + strings.Repeat("x", 201), "", nil,
			422, []string{"reason", "200"}},
		"route of a policy": {"PUT", "/policy?reason=x", `{"plans":[],"routes":[{"name":"a","match":[]}]}`, match,
			422, []string{"body.routes[0].match", ">= 1"}},
		"addresses": {"PUT", "/policy?reason=x", `{"plans":[],"deny":["10.0.0.0/8","home"]}`, match, 422,
			[]string{"body.deny[1]",
				"203.0.113.0/24"}},
		"unmasked addresses": {"PUT", "/policy?reason=x", `{"plans":[],"deny":["10.0.0.1/8"]}`, match, 422,
			[]string{"body.deny[0]"}},
		"a route's path": {"PUT", "/policy?reason=x",
			`{"plans":[],"routes":[{"name":"a","match":[{"path":"orders"}]}]}`, match, 422,
			[]string{"body.routes[0].match[0]"}},
		"policy without body": {"PUT", "/policy?reason=x", ``, match, 400, nil},
		"large policy": {"PUT", "/policy?reason=x", strings.Repeat(" ", MaxPolicyBody),
			match, 413, nil},
		"invalid number": {"GET", "/audit/nothing", "", nil, 422, nil},
		"no such change": {"GET", "/audit/999", "", nil, 404, []string{"No such change"}},
		"audit position": {"GET", "/audit?after=x", "", nil, 422, []string{"query.after"}},
		"audit from after to": {"GET", "/audit?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "",
			nil, 422,
			[]string{"query.to", "must be after from"}},
		"explain without key": {"GET", "/explain", "", nil, 422, []string{"query.key", "required"}},
		"explain an address": {"GET", "/explain?key=" + k.ID + "&address=home", "", nil, 422,
			[]string{"query.address"}},
		"explain a path": {"GET", "/explain?key=" + k.ID + "&path=orders", "", nil, 422,
			[]string{"query.path"}},
		"short step":   {"GET", keyPath + "/usage?step=7s", "", nil, 422, []string{"at most 1,500 steps"}},
		"invalid step": {"GET", keyPath + "/usage?step=often", "", nil, 422, []string{"query.step"}},
		"from after to": {"GET", "/overview?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "",
			nil, 422, nil},
		"no such token": {"DELETE", "/tokens/AAAAAAAAAAAA", "", nil, 404, []string{"No such token"}},
		"token's scope": {"POST", "/tokens", `{"name":"a","scope":"all","expires":"2026-12-31T00:00:00Z"}`,
			nil, 422, []string{"body.scope"}},
		"token without end": {"POST", "/tokens", `{"name":"a","scope":"read","expires":"2199-12-31T00:00:00Z"}`,
			nil, 422, []string{"body.expires",
				"366 days"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			var body any
			if row.body != "" {
				body = []byte(row.body)
			}
			r := s.do(row.method, row.path, body, row.headers).wants(row.status, row.wants...)
			if r.header.Get("Content-Type") != "application/problem+json" ||
				r.stringAt("type") != "about:blank" ||
				r.stringAt("title") != http.StatusText(row.status) ||
				r.at("status") != float64(row.status) || r.stringAt("detail") == "" {
				t.Errorf("got %v %s, want a complete problem", r.header, r.text)
			}
			if len(r.text) > 20_000 || strings.Contains(r.text, secret.Reveal()) {
				t.Errorf("the response has %d bytes, or the secret", len(r.text))
			}
		})
	}
	s.t = t
	if page, err := s.keys.Audit(t.Context(), registry.AuditQuery{By: "ada", Count: 5}); err != nil ||
		len(page.Entries) > 0 {
		t.Errorf("an invalid request changed something: %+v, %v", page.Entries, err)
	}
	if s.log.Len() > 0 {
		t.Errorf("an error of the client is logged: %s", s.log)
	}
}

// An error of Valkey is logged and gets 503 with Retry-After, without the cause.
func TestStoreUnavailable(t *testing.T) {
	s := newService(t)
	s.settling(map[string]int64{limits.Cost: 2})
	id := s.create("acme").ID
	settlement := s.call(id, "/chat").Settlement
	s.client.Close()
	for _, r := range []reply{
		s.get("/keys"), s.get("/policy"), s.get("/overview"), s.get("/audit"), s.get("/tokens"),
		s.get("/keys/" + id + "/usage"),
		s.post("/keys", map[string]any{"name": "a", "plan": "free"}),
		s.post("/settlements", map[string]any{"settlement": settlement, "cost": 1}),
	} {
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" ||
			strings.Contains(r.text, "valkey") ||
			strings.Contains(r.text, "127.0.0.1") {
			t.Errorf("%s: got %d %v %s, want 503 without the cause", r.what, r.status, r.header, r.text)
		}
	}
	if !strings.Contains(s.log.String(), "api: list-keys") {
		t.Errorf("the log lacks the error: %s", s.log)
	}
}

// A problem lists at most MaxErrors errors.
func TestManyErrors(t *testing.T) {
	s := newService(t)
	body := `{"name":"a","plan":"free"`
	for i := range 60 {
		body += fmt.Sprintf(`,"y%d":1`, i)
	}
	r := s.post("/keys", []byte(body+"}"))
	if errs, _ := r.body["errors"].([]any); r.status != http.StatusUnprocessableEntity ||
		len(errs) != rest.MaxErrors {
		t.Errorf("got status %d with %d errors, want 422 with %d", r.status, len(errs), rest.MaxErrors)
	}
}

func manyFields(format string) string {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
