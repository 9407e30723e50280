package dashboard

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	routing "tidegate/internal/route"
	"tidegate/internal/store/keyspace"
)

// countDenied makes the stored limits of so many requests count denied calls, as a
// release could that did not refuse it.
func (r *testRegistry) countDenied(requests string) {
	r.t.Helper()
	do := func(c valkey.Completed) string {
		text, err := r.client.Do(r.t.Context(), c).ToString()
		if err != nil {
			r.t.Fatal(err)
		}
		return text
	}
	key := keyspace.Record(policyset.SetID)
	record := do(r.client.B().Get().Key(key).Build())
	from := `"requests":` + requests + `,`
	if !strings.Contains(record, from) {
		r.t.Fatalf("no %s in %s", from, record)
	}
	version := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32([]byte(record))+1)
	text := string(version) + strings.ReplaceAll(record[4:], from, from+`"countDenied":true,`)
	do(r.client.B().Set().Key(key).Value(text).Build())
	if err := r.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// sharedRow is a limit as the forms of shared limits send it.
func sharedRow(list, requests string) []string {
	at := list + "[0]."
	return []string{
		at + "requests", requests, at + "window", "1", at + "unit", "minute", at + "algorithm", "log",
		at + "countDenied", form.Checked,
	}
}

// The forms of limits that several callers share refuse to count denied calls, when they
// save and when they preview, and do not offer it. So does an import.
func TestSharedLimitsDoNotCountDenied(t *testing.T) {
	s := newSite(t).login()
	const why = "several callers share this limit"
	shared := fields("version", "1", "perIPMode", "enforce", "globalMode", "enforce", "reason", "test", "action", "save")
	for _, c := range []struct {
		path, list string
		form       url.Values
	}{
		{"/policies/shared", "perIP", shared},
		{"/policies/shared", "global", shared},
		{"/policies/rules", "perIP", ruleOf(1, "", "chat", "POST", "/chat")},
		{"/policies/rules", "shared", ruleOf(1, "", "chat", "POST", "/chat")},
	} {
		for _, button := range []string{"save", previewButton} {
			form := with(with(c.form, sharedRow(c.list, "100")...), "action", button)
			s.post(c.path, form).wants(t, http.StatusUnprocessableEntity, `id="`+c.list+`-0-countDenied-error"`, why)
		}
	}
	for path, not := range map[string]string{"/policies/shared": "countDenied", "/policies/rules/new": "shared-0-countDenied"} {
		if body := s.get(path).wants(t, http.StatusOK).body; strings.Contains(body, not) {
			t.Errorf("%s offers %s", path, not)
		}
	}
	s.get("/policies/rules/new").wants(t, http.StatusOK, `id="perKey-0-countDenied"`)
	file := "plans: [{name: free, limits: [10 per 10 seconds]}]\nglobal: {limits: ['9 per minute, denied calls count']}\n"
	s.post("/policies/import", fields("version", "1", "yaml", file)).wants(t, http.StatusUnprocessableEntity,
		"Line 2: global.limits[0].countDenied", why)
	if s.keys.written() != 0 {
		t.Error("a form that was refused wrote")
	}
}

// What is stored stays through other edits. The page of policies says what it means and
// what to do, until it is cleared.
func TestStoredSharedLimitsThatCountDenied(t *testing.T) {
	s := newSite(t)
	set := s.set()
	set.Global.Limits = []limiter.Limit{{Requests: 777, Window: time.Minute}}
	set.Routes = []policy.Route{{Name: "chat", Cost: 1, Pattern: routing.Pattern{Path: "/chat"},
		Shared: []limiter.Limit{{Requests: 777, Window: time.Minute}}}}
	if _, err := s.keys.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	s.keys.countDenied("777")
	s.login()
	const warning = `id="count-denied"`
	s.get("/policies").wants(t, http.StatusOK, warning, "All callers together: 777 per minute, denied calls count", `href="/policies/shared"`,
		"Route rule chat, all callers, on this rule: 777 per minute, denied calls count", `href="/policies/rules/edit?rule=chat"`)
	s.get("/policies/shared").wants(t, http.StatusOK, `name="global[0].countDenied" value="yes" checked`, "keep out the others")
	version := s.set().Version
	form := fields("perIPMode", "enforce", "globalMode", "enforce", "reason", "test", "action", "save")
	save := func(more ...string) {
		t.Helper()
		s.post(
			"/policies/shared", with(with(form, "version", page.Number(version)), more...),
		).wants(t, http.StatusSeeOther)
		version++
	}
	save(append(sharedRow("global", "778"), "deny", "203.0.113.0/24")...)
	save(append(sharedRow("global", "778"), "global[0].countDenied", "")...)
	body := s.get("/policies").wants(t, http.StatusOK, warning, "Route rule chat").body
	if strings.Contains(body, "All callers together: 778") {
		t.Error("the page still warns of what was cleared")
	}
	s.post("/policies/rules", ruleOf(version, "chat", "chat", "", "/chat")).wants(t, http.StatusSeeOther)
	if body := s.get("/policies").wants(t, http.StatusOK).body; strings.Contains(body, warning) {
		t.Error("the page still warns")
	}
}
