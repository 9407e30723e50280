package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/internal/answer"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage"
	"tidegate/web/middleware"
)

func (s *service) reserve(id string, cost int64) reply {
	s.t.Helper()
	return s.post("/reservations", map[string]any{"keyId": id, "cost": cost})
}

// A worker reserves, learns when that is too much, and settles through the middleware's
// client, once.
func TestReservations(t *testing.T) {
	s := newService(t)
	id := s.create("worker").ID
	granted := s.reserve(id, 6).wants(http.StatusCreated, `"remaining":4`, `"scope":"key"`)
	denied := s.reserve(id, 5).wants(http.StatusTooManyRequests, "quota-exceeded")
	if len(denied.header.Get("Retry-After")) != 3 {
		t.Errorf("%v", denied.header)
	}
	settler := middleware.Settler{URL: s.server.URL, Token: "machine"}
	text := granted.stringAt("reservation")
	if got, err := settler.Settle(t.Context(), text, 2); err != nil ||
		got != (middleware.Settlement{Reserved: 6, Actual: 2, SettleMax: 60}) {
		t.Errorf("%+v, %v", got, err)
	}
	var refused *middleware.SettleError
	if _, err := settler.Settle(t.Context(), text, 2); !errors.As(err, &refused) ||
		refused.Status != http.StatusConflict {
		t.Errorf("once more: %v", err)
	}
	s.reserve(id, 8).wants(http.StatusCreated)
	s.reserve("nobody", 1).wants(http.StatusNotFound)
	s.reserve(id, 11).wants(http.StatusUnprocessableEntity, "no more than any limit")
	s.reserve(id, 0).wants(http.StatusUnprocessableEntity, "body.cost")
	s.post("/reservations", map[string]any{"keyId": id, "cost": 1, "route": "no such"}).wants(
		http.StatusNotFound)
	s.post("/reservations/settle", map[string]any{"reservation": "tgr_AAAA", "cost": 1}).wants(
		http.StatusUnprocessableEntity, "no reservation")
	s.post("/reservations/settle",
		map[string]any{"reservation": text, "cost": -1}).wants(http.StatusUnprocessableEntity, "body.cost")
	if _, err := s.keys.Revoke(t.Context(), id, 1, byTest); err != nil {
		t.Fatal(err)
	}
	s.reserve(id, 1).wants(http.StatusNotFound)
}

func TestBannedWorker(t *testing.T) {
	s := newService(t)
	k := s.create("worker")
	_, err := s.keys.Update(t.Context(), k.ID, 1, "key.ban", byTest, func(k *policy.Key) {
		k.Banned = time.Now().Add(time.Hour)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.reserve(k.ID, 1).wants(http.StatusTooManyRequests, "banned",
		`"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"`)
}

// What was taken and what was counted is listed for one key and for all.
func TestUsage(t *testing.T) {
	s := newService(t)
	busy, quiet := s.create("busy"), s.create("quiet")
	s.reserve(busy.ID, 10).wants(http.StatusCreated)
	now := time.Now()
	recorder := usage.NewRecorder(usage.Options{}, func() time.Time { return now })
	for i := range 7 {
		o := usage.Outcome{Subject: busy.ID, Registered: true, Cost: 1, Time: now}
		if i > 4 {
			o.Verdict, o.DeniedUntil = usage.Denied, now.Add(10*time.Minute)
		}
		recorder.Record(o)
	}
	if report := recorder.Flush(t.Context(), connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	s.get("/keys/"+busy.ID+"/usage").wants(http.StatusOK, `"used":10`, `"remaining":0`, `"nextFree":`,
		`"total":{"allowed":5,"denied":2,`, `"step":"1m"`)
	s.get("/keys/"+quiet.ID+"/usage?step=1h").wants(http.StatusOK, `"used":0`,
		`"total":{"allowed":0,"denied":0,`, `"step":"1h"`)
	s.get("/keys?state=blocked").wants(http.StatusOK, busy.ID)
	s.get("/callers").wants(http.StatusOK, `"id":"`+busy.ID+`"`, `"name":"busy"`)
	s.get("/callers?after=!").wants(http.StatusUnprocessableEntity, "query.after")
	got := s.get("/overview?top=1").wants(http.StatusOK, `"keys":2`, `"activeCallers":1`, `"policyVersion":1`)
	if got.stringAt("busiest", 0, "name") != "busy" || got.at("busiest", 0, "allowed") != 5.0 ||
		got.stringAt("mostDenied", 0, "id") != busy.ID {
		t.Errorf("%s", got.text)
	}
}

// An explanation names the rule that won, the limits and the very answer.
func TestExplain(t *testing.T) {
	s := newService(t)
	s.fill()
	id := s.create("acme").ID
	s.get("/explain?key="+id+"&path=/health").wants(http.StatusOK, `"rule":"free"`, `"cost":0`,
		`"allowed":true`, `"status":0`)
	s.get("/explain?key="+id+"&method=post&path=/chat/7&api=abc&stage=prod&address=192.0.2.7").
		wants(http.StatusOK, `"rule":"chat"`, `"cost":5`, `"scope":"route-ip"`, `"won":true`,
			`"pattern":"abc/prod POST /chat/{id}"`)
	s.get("/explain?key="+id+"&address=203.0.113.9").wants(http.StatusOK, `"allowed":false`, `"refused":"`,
		`"status":401`, answer.Unauthorized)
	s.get("/explain?key="+id+"&address=10.1.2.3").wants(http.StatusOK, `"exempt":true`)
	s.reserve(id, 10).wants(http.StatusCreated)
	s.get("/explain?key="+id).wants(http.StatusOK, `"allowed":false`, `"status":429`, "quota-exceeded",
		`"violatedPolicies":["10 per 10 minutes"]`,
		`"retryAfter":`)
}

func TestSimulate(t *testing.T) {
	s := newService(t)
	got := s.post("/simulate", []byte(`{"limit":{"requests":2,"window":"10s"},"calls":[0,9.9,1,10.000001]}`)).
		wants(http.StatusOK, `"allowed":3`)
	if got.at("decisions", 2, "at") != 9.9 || got.at("decisions", 2, "remaining") != 0.0 ||
		got.at("decisions", 2, "retryAfter").(float64) > 0.11 {
		t.Errorf("%s", got.text)
	}
}

// The lab finds that a fixed window lets twice the limit through around a boundary, and
// that the log never does. The same question has the same answer.
func TestSimulateLab(t *testing.T) {
	s := newService(t)
	attack :=
		`{"requests":100,"window":"1m","shape":"boundary","rate":1000,"windows":4,"algorithms":["log","fixed-window"],"points":50}`
	got := s.post("/simulate/lab", []byte(attack)).wants(http.StatusOK)
	if got.at("outcomes", 0, "worst") != 100.0 || got.at("outcomes", 1, "worst") != 200.0 ||
		got.at("outcomes", 0, "falseAllows") != 0.0 ||
		got.at("exact", "worst") != 100.0 {
		t.Errorf("%s", got.text)
	}
	if again := s.post("/simulate/lab", []byte(attack)).wants(http.StatusOK); again.text != got.text {
		t.Errorf("%s\nand then\n%s", got.text, again.text)
	}
	s.post("/simulate/lab", []byte(
		`{"requests":10,"window":"1m","shape":"recorded","minutes":[4,30,0,7],"algorithms":["log"]}`)).
		wants(http.StatusOK, `"calls":41`)
	for body, want := range map[string]string{
		`{"requests":10,"window":"soon","shape":"boundary","rate":100,"windows":1}`:                      `"location":"body.window"`,
		`{"requests":10,"window":"1m","shape":"boundary"}`:                                               `"location":"body.rate"`,
		`{"requests":10,"window":"1m","shape":"zigzag","rate":100,"windows":1}`:                          `"location":"body.shape"`,
		`{"requests":10000,"window":"1m","shape":"greedy","rate":1000,"windows":1}`:                      "must be 1 to 50000",
		`{"requests":10,"window":"1m","shape":"recorded","minutes":[-1]}`:                                `"location":"body.minutes[0]"`,
		`{"requests":10,"window":"1m","shape":"recorded","minutes":[50000,1]}`:                           `"location":"body.minutes"`,
		`{"requests":10,"window":"1m","shape":"boundary","rate":100,"windows":1,"algorithms":["leaky"]}`: `"location":"body.algorithms[0]"`,
	} {
		s.post("/simulate/lab", []byte(body)).wants(http.StatusUnprocessableEntity, want)
	}
}

// The audit comes in pages, is narrowed, is verified, and a change can be put back, as
// long as it was not changed again.
func TestAudit(t *testing.T) {
	s := newService(t)
	id := s.create("acme").ID
	for _, name := range []string{"one", "two", "three"} {
		s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": name, "reason": "to " + name},
			header{"If-Match": "*"}).wants(http.StatusOK)
	}
	var actions []string
	pages := 0
	for next := ""; pages == 0 || next != ""; pages++ {
		page := s.get("/audit?count=2&after=" + next).wants(http.StatusOK)
		items, _ := page.at("items").([]any)
		for i := range items {
			actions = append(actions, page.stringAt("items", i, "action")+" "+
				page.stringAt("items", i, "reason"))
		}
		next = page.stringAt("next")
	}
	if len(actions) != 5 || pages != 3 || actions[0] != "key.edit to three" || actions[4] != "policy.save " {
		t.Errorf("%d pages: %q", pages, actions)
	}
	list := s.get("/audit?subject="+id+"&action=key.edit&by=ada").wants(http.StatusOK, `"before":{"id":"`+id)
	if items, _ := list.at("items").([]any); len(items) != 3 {
		t.Errorf("%s", list.text)
	}
	s.get("/audit/verify").wants(http.StatusOK, `"entries":5`, `"good":true`, `"broken":[]`)
	entry := list.stringAt("items", 1, "id") // one became two
	s.get("/audit/"+entry).wants(http.StatusOK, `"reason":"to two"`)

	revert := map[string]any{"reason": "oops"}
	s.post("/audit/"+entry+"/revert", revert).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert,
		header{"If-Match": `"3"`}).wants(http.StatusPreconditionFailed, `"currentVersion":4`)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert, header{"If-Match": `"4"`}).wants(http.StatusOK,
		`"version":5`)
	s.get("/keys/"+id).wants(http.StatusOK, `"name":"one"`)
	created := s.get("/audit?action=key.create").stringAt("items", 0, "id")
	s.do(http.MethodPost, "/audit/"+created+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "delete it instead")
	saved := s.get("/audit?subject=policy").stringAt("items", 0, "id")
	s.do(http.MethodPost, "/audit/"+saved+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "keys use it (1)")
	s.do(http.MethodDelete, "/keys/"+id, nil, nil).wants(http.StatusNoContent)
	s.do(http.MethodPost, "/audit/"+entry+"/revert", revert,
		header{"If-Match": "*"}).wants(http.StatusConflict, "deleted since")
}

// A chain whose newest entry was taken out is not good, and the answer says where it
// ends.
func TestAuditCut(t *testing.T) {
	s := newService(t)
	k := s.create("acme")
	stream := audit.Stream(keyspace.BucketOf(k.ID))
	root := connect(t, s.url)
	if err := root.Do(t.Context(),
		root.B().Xtrim().Key(stream).Maxlen().Threshold("0").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	verified := s.get("/audit/verify").wants(http.StatusOK, `"good":false`, `"broken":[]`, `"missing":1`)
	if cuts, _ := verified.at("cuts").([]any); len(cuts) != 1 {
		t.Errorf("%s", verified.text)
	}
}

// People make tokens, machines do not; a secret is shown once; creation and revocation
// are in the audit, without it.
func TestTokens(t *testing.T) {
	s := newService(t)
	body := map[string]any{"name": "ci", "scope": "write", "expires": time.Now().Add(time.Hour)}
	s.actor = machine
	s.post("/tokens", body).wants(http.StatusForbidden, "Only people")
	s.get("/me").wants(http.StatusOK, `"kind":"token"`, `"role":"editor"`)
	s.actor = ada
	made := s.post("/tokens", body).wants(http.StatusCreated)
	id, secret := made.stringAt("token", "id"), made.stringAt("secret")
	if known, err := s.tokens.Authenticate(t.Context(), secret); err != nil || known.Scope != token.Write ||
		known.Actor().Role != auth.Editor {
		t.Fatalf("%+v, %v", known, err)
	}
	list := s.get("/tokens").wants(http.StatusOK, id, `"createdBy":"ada"`)
	s.actor = machine
	s.do(http.MethodDelete, "/tokens/"+id, nil, nil).wants(http.StatusNoContent)
	if _, err := s.tokens.Authenticate(t.Context(), secret); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("after its revocation: %v", err)
	}
	log := s.get("/audit?subject=tokens").wants(http.StatusOK, `"action":"token.create"`,
		`"action":"token.revoke"`, `"name":"ci"`, `"scope":"write"`)
	for _, text := range []string{list.text, log.text} {
		if len(secret) > 20 && (strings.Contains(text, secret) ||
			strings.Contains(text, secret[len("tga_")+12:])) {
			t.Errorf("the secret is shown: %s", text)
		}
	}
	if log.stringAt("items", 0, "by", "name") != machine.String() ||
		log.stringAt("items", 1, "by", "name") != "ada" {
		t.Errorf("%s", log.text)
	}
	s.get("/audit/verify").wants(http.StatusOK, `"good":true`, `"entries":3`)
	if irreversible := s.get("/audit?subject=tokens").stringAt("items", 0, "id"); irreversible != "" {
		s.do(http.MethodPost, "/audit/"+irreversible+"/revert", map[string]any{"reason": "x"},
			header{"If-Match": "*"}).wants(http.StatusConflict,
			"Only changes of keys")
	}
	if page, err := s.keys.Audit().List(t.Context(), audit.Query{Action: "token."}); err != nil ||
		len(page.Entries) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A caller that others vouch for gets a record under the id that checks know it by, and
// then an override like any key.
func TestAdopt(t *testing.T) {
	s := newService(t)
	body := map[string]any{"kind": "token", "issuer": "https://issuer.example", "holder": "bob",
		"name": "bob", "reason": "abuse"}
	made := s.post("/callers", body).wants(http.StatusCreated, `"kind":"token"`)
	id := s.keys.TokenCaller("https://issuer.example", "bob")
	if made.stringAt("id") != id || made.header.Get("Location") != Prefix+"/keys/"+id ||
		made.header.Get("ETag") != `"1"` {
		t.Errorf("%v %s", made.header, made.text)
	}
	s.post("/callers", body).wants(http.StatusConflict, "already")
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "abuse"}
	s.do(http.MethodPut, "/keys/"+id+"/override", override, header{"If-Match": `"1"`}).wants(http.StatusOK)
	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "0s"},
		header{"If-Match": "*"}).wants(http.StatusConflict)
	s.post("/callers", map[string]any{"kind": "address", "network": "203.0.113.7/32", "name": "home",
		"reason": "x", "override": override}).
		wants(http.StatusCreated, `"requests":5`)
	for field, body := range map[string]string{
		"body.id":      `{"kind":"token","id":"short","name":"a","reason":"x"}`,
		"body.issuer":  `{"kind":"token","holder":"bob","name":"a","reason":"x"}`,
		"body.network": `{"kind":"address","network":"home","name":"a","reason":"x"}`,
		"body.kind":    `{"kind":"key","name":"a","reason":"x"}`,
		"body.name":    `{"kind":"address","network":"203.0.113.8/32","name":" ","reason":"x"}`,
		"body.override.limits[0].requests": `{"kind":"address","network":"203.0.113.8/32","name":"a","reason":"x",` +
			`"override":{"reason":"x","limits":[{"requests":0,"window":"1s"}]}}`,
	} {
		s.post("/callers", []byte(body)).wants(http.StatusUnprocessableEntity, field)
	}
}
