package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/storetest"
)

// Keys join and leave a group, which filters lists, shows the state of its limits and is
// reset, with an audit entry.
func TestGroups(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute", "5 per hour, each group")})
	made := s.post("/keys", map[string]any{"name": "a", "plan": "pro", "group": "acme"}).
		wants(http.StatusCreated, `"group":"acme"`)
	id, secret := made.stringAt("key", "id"), made.stringAt("secret")
	s.post("/keys", map[string]any{"name": "b", "plan": "pro", "group": "a b"}).
		wants(http.StatusUnprocessableEntity, "body.group")
	s.post("/import", map[string]any{"keys": []any{map[string]any{"name": "c", "plan": "free",
		"group": "acme"}}}).wants(http.StatusOK, `"state":"created"`)
	s.create("alone")
	s.get("/groups?count=1&prefix=AC").wants(http.StatusOK, `"items":[{"name":"acme","keys":2}]`)
	s.get("/groups?after=acme").wants(http.StatusOK, `"items":[]`)
	s.get("/groups/nobody").wants(http.StatusNotFound)
	s.get("/groups/a%20b").wants(http.StatusNotFound)
	s.get("/groups/acme").wants(http.StatusOK, `"keys":2`, `"plan":"pro"`, `"used":0`, `"remaining":5`)
	if r := s.get("/keys?group=acme&plan=pro").wants(http.StatusOK, `"name":"a"`); strings.Contains(r.text,
		`"name":"c"`) || strings.Contains(r.text, "alone") {
		t.Errorf("got %s, want only key a", r.text)
	}
	parsed, err := apikey.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	check := s.checker()
	call := enforce.Call{Kind: policy.APIKey, Subject: id, Secret: parsed,
		Route: route.Call{Method: "GET", Path: "/"}}
	for range 3 {
		if c, err := check.Check(t.Context(), call); err != nil || !c.Allowed {
			t.Fatalf("got %+v, %v, want an allowed call", c, err)
		}
	}
	s.get("/groups/acme").wants(http.StatusOK, `"used":3`, `"remaining":2`, `"who":"each group"`)
	s.get("/explain?key="+id).wants(http.StatusOK, `"who":"each group"`, `"used":3`)
	s.post("/groups/acme/reset", map[string]any{"reason": "new month"}).wants(http.StatusNoContent)
	s.get("/groups/acme").wants(http.StatusOK, `"used":0`)
	s.get("/keys/"+id).wants(http.StatusOK, `"used":3`)
	if e, found := s.newest(policy.GroupID("acme")); !found || e.Action != "group.reset" ||
		e.Subjects[0].Name != "acme" ||
		e.Reason != "new month" {
		t.Errorf("the newest audit entry is %+v, want the reset", e)
	}
	s.post("/groups/nobody/reset", nil).wants(http.StatusNotFound)
	s.post("/bulk/reset", map[string]any{"filter": map[string]any{"group": "acme"},
		"change": map[string]any{"reason": "x"}, "confirm": 2}).wants(http.StatusOK, `"done":2`)
	reset := s.get("/keys/" + id).header.Get("ETag")
	named := s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": "still"}, header{"If-Match": reset}).
		wants(http.StatusOK, `"group":"acme"`).header.Get("ETag")
	s.do(http.MethodPatch, "/keys/"+id, map[string]any{"group": ""}, header{"If-Match": named}).
		wants(http.StatusOK)
	s.get("/groups/acme").wants(http.StatusOK, `"keys":1`)
}

// An override of a group applies to its keys, names a bad field, and is ended. A policy
// document neither has nor drops it. The audit has both changes.
func TestGroupOverride(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	id := s.post("/keys", map[string]any{"name": "a", "plan": "pro", "group": "acme"}).
		wants(http.StatusCreated).stringAt("key", "id")
	override := func(name string, requests int, reason string) reply {
		return s.do(http.MethodPut, "/groups/"+name+"/override", map[string]any{"reason": reason,
			"limits": []any{map[string]any{"requests": requests, "window": "1m"}}}, header{"If-Match": "*"})
	}
	override("nobody", 5, "a launch").wants(http.StatusNotFound)
	override("acme", 0, "a launch").wants(http.StatusUnprocessableEntity, "body.limits[0].requests")
	override("acme", 5, "").wants(http.StatusUnprocessableEntity, "body.reason")
	override("acme", 5, "a launch").wants(http.StatusOK, `"override":{"limits":[{"requests":5`)
	s.get("/explain?key="+id).wants(http.StatusOK, `"override":"group"`, `"source":"group"`, `"requests":5`)
	if e, found := s.newest(app.PolicyRecord); !found || e.Action != registry.GroupOverride ||
		e.Reason != "a launch" {
		t.Errorf("the newest audit entry is %+v, want the override", e)
	}
	document := s.get("/policy").wants(http.StatusOK)
	s.do(http.MethodPut, "/policy?reason=x", document.body, header{"If-Match": document.header.Get("ETag")}).
		wants(http.StatusOK)
	s.get("/groups/acme").wants(http.StatusOK, `"reason":"a launch"`)
	s.do(http.MethodDelete, "/groups/acme/override?reason=over", nil, nil).wants(http.StatusNoContent)
	if after := s.get("/explain?key=" + id).wants(http.StatusOK); strings.Contains(after.text, "override") {
		t.Errorf("got %s, want no override", after.text)
	}
	s.do(http.MethodDelete, "/groups/acme/override?reason=over", nil, nil).wants(http.StatusNotFound)
}

// An override with a limit that never denies is refused with its warning, on a key, on a
// group and on many keys, until accept confirms it. An edit without If-Match, or of an
// older version, is refused first.
func TestOverrideWarnings(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	id := s.post("/keys", map[string]any{"name": "a", "plan": "pro", "group": "acme"}).
		wants(http.StatusCreated).stringAt("key", "id")
	override := map[string]any{"reason": "x", "limits": []any{
		map[string]any{"requests": 5, "window": "1m"}, map[string]any{"requests": 500, "window": "1m"}}}
	star := header{"If-Match": "*"}
	s.do(http.MethodPut, "/keys/"+id+"/override", override, nil).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPut, "/keys/"+id+"/override", override, header{"If-Match": `"9"`}).
		wants(http.StatusPreconditionFailed)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPut, "/keys/" + id + "/override", override},
		{http.MethodPut, "/groups/acme/override", override},
		{http.MethodPost, "/bulk/override", map[string]any{"ids": []string{id}, "change": override}},
	} {
		before := s.get("/audit").wants(http.StatusOK).text
		s.do(c.method, c.path, c.body, star).wants(http.StatusConflict, "query.accept",
			`\"500 per minute\" never decides: \"5 per minute\" denies every call before it.`)
		if after := s.get("/audit").wants(http.StatusOK).text; after != before {
			t.Errorf("%s without accept was saved: %s", c.path, after)
		}
		s.do(c.method, c.path+"?accept=true", c.body, star).wants(http.StatusOK)
	}
}

// A filter of the denial log selects the keys of a group.
func TestDenialsOfGroup(t *testing.T) {
	s := newService(t)
	recorder := records.NewRecorder(time.Now)
	for name, group := range map[string]string{"a": "acme", "b": "", "c": "zebra"} {
		recorder.Record(records.Call{Caller: s.create(name).ID, Registered: true, Time: time.Now(),
			Cause: cause.Limit, Limit: "5 per 1 h", Plan: name, Group: group, Method: "GET", Path: "/"})
	}
	if report := recorder.Flush(t.Context(), storetest.Connect(t, s.url)); report.Err != nil {
		t.Fatal(report.Err)
	}
	r := s.get("/denials?group=acme").wants(http.StatusOK, `"group":"acme"`, `"plan":"a"`)
	if strings.Contains(r.text, "zebra") || strings.Contains(r.text, `"plan":"b"`) {
		t.Errorf("got %s, want only denials of group acme", r.text)
	}
	if r := s.get("/denials").wants(http.StatusOK, `"group":"zebra"`, `"plan":"b"`); strings.Contains(r.text,
		`"group":""`) {
		t.Errorf("got %s, want no group for the key without one", r.text)
	}
}

// A key and a group have a billing day, which limits per billing month follow.
func TestBillingDays(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per billing month",
		"500 per billing month, each group")})
	made := s.post("/keys", map[string]any{"name": "a", "plan": "pro", "group": "acme",
		"billing": map[string]any{"day": 15, "zone": "Europe/Berlin"}}).
		wants(http.StatusCreated, `"billing":{"day":15,"zone":"Europe/Berlin"}`)
	id := made.stringAt("key", "id")
	s.post("/keys", map[string]any{"name": "b", "plan": "pro", "billing": map[string]any{"day": 32}}).
		wants(http.StatusUnprocessableEntity, "body.billing.day")
	s.post("/keys", map[string]any{"name": "b", "plan": "pro", "billing": map[string]any{"zone": "Mars"}}).
		wants(http.StatusUnprocessableEntity, "billing.zone", "Europe/Berlin")
	s.do(http.MethodPut, "/groups/acme/billing", map[string]any{"day": 31, "reason": "contract"},
		header{"If-Match": "*"}).
		wants(http.StatusOK, `"billing":{"day":31}`)
	s.do(http.MethodPut, "/groups/nobody/billing", map[string]any{"day": 31},
		header{"If-Match": "*"}).wants(http.StatusNotFound)
	s.get("/groups/acme").wants(http.StatusOK, `"500 per billing month, each group"`, `"billing":{"day":31}`)
	s.do(http.MethodPut, "/groups/acme/billing", map[string]any{}, header{"If-Match": "*"}).wants(
		http.StatusOK,
	)
	if r := s.get("/groups/acme").wants(http.StatusOK); strings.Contains(r.text, `"billing":{`) {
		t.Errorf("got %s, want no billing day", r.text)
	}
	s.do(http.MethodPatch, "/keys/"+id, map[string]any{"billing": nil}, header{"If-Match": "*"}).
		wants(http.StatusOK)
	if r := s.get("/keys/" + id).wants(http.StatusOK); strings.Contains(r.text, `"billing":{`) {
		t.Errorf("got %s, want no billing day", r.text)
	}
}
