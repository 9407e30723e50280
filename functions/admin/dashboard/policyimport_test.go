package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/policydoc"
)

var hiddenInPage = regexp.MustCompile(`<input type="hidden" name="(version|seen)" value="([^"]*)"`)

// again sends a form once more as the page that answered has it, with other text if there
// is any.
func (s *site) again(page reply, text, reason string) reply {
	s.t.Helper()
	form := url.Values{"yaml": {text}, "reason": {reason}, "action": {"save"}}
	for _, m := range hiddenInPage.FindAllStringSubmatch(page.body, -1) {
		form.Set(m[1], m[2])
	}
	return s.post("/policies/import", form)
}

// What is exported can be imported, without scripts: first the changes are shown, then
// they are made, with a reason.
func TestImportPolicies(t *testing.T) {
	s := newSite(t).login()
	s.get("/policies").wants(t, http.StatusOK, `href="/policies.yaml"`, `href="/policies/import"`)
	exported := s.get("/policies.yaml").wants(t, http.StatusOK, "- 10 per 10 seconds")
	if !strings.Contains(exported.Header.Get("Content-Disposition"), "tidegate-policies.yaml") {
		t.Errorf("%v", exported.Header)
	}
	form := s.get("/policies/import").wants(t, http.StatusOK, "Show what it changes")
	s.again(form, exported.body, "").wants(t, http.StatusOK, "Nothing changes", "Show what it changes")
	text := strings.Replace(exported.body, "10 per 10 seconds", "25 per 10 seconds", 1)
	shown := s.again(form, text, "").wants(t, http.StatusOK, "plan free: limits", "25 per 10 seconds</bdi></ins>", ">Import</button>")
	if s.keys.written() != 0 {
		t.Fatal("something was written before it was seen")
	}
	s.again(shown, text, " ").wants(t, http.StatusUnprocessableEntity, "Say why")
	other := s.again(shown, strings.Replace(text, "25", "26", 1), "more").wants(t, http.StatusOK, "26 per 10 seconds</bdi></ins>")
	if s.keys.written() != 0 {
		t.Fatal("something was written that was not seen")
	}
	s.again(other, strings.Replace(text, "25", "26", 1), "more").wants(t, http.StatusSeeOther)
	s.get("/policies").wants(t, http.StatusOK, "26 per 10 seconds", "Imported: 1 changes", "/undo")
	if e, _ := s.keys.Set(t.Context()); e.Plans[0].Number != 1 || e.Version != 2 {
		t.Errorf("%+v", e)
	}
}

// When somebody saves between the look and the import nothing is written, and the changes
// are shown anew.
func TestImportConflict(t *testing.T) {
	s := newSite(t).login()
	text := "plans:\n  - name: free\n    limits: [25 per 10 seconds]\n"
	shown := s.again(s.get("/policies/import"), text, "").wants(t, http.StatusOK, "Import")
	s.keys.plan("pro", per(100, time.Minute))
	before := s.keys.written()
	again := s.again(shown, text, "mine").wants(t, http.StatusConflict, "Somebody saved meanwhile", "plan pro")
	s.post("/policies/import", url.Values{"yaml": {"version: 1\n" + text}, "version": {"2"}, "reason": {"x"}}).
		wants(t, http.StatusConflict, "was made of version 1; version 2 is in force")
	if s.keys.written() != before {
		t.Fatal("something was written")
	}
	s.again(again, text, "mine").wants(t, http.StatusSeeOther)
	if set, _ := s.keys.Set(t.Context()); len(set.Plans) != 1 || set.Version != 3 {
		t.Errorf("%+v", set)
	}
}

// What is wrong with a file is said with its line; what was typed stays, and is no
// markup.
func TestImportRefuses(t *testing.T) {
	s := newSite(t).login()
	for text, want := range map[string]string{
		"plans: [\n":                           "Line ",
		"plnas: []\n":                          "Line 1: there is no field",
		"a: &amp [x]\nb: *amp":                 "anchor",
		"":                                     "the file is empty",
		"plans:\n  - name: x\n":                "Line 2: plans[0].limits 0 given",
		"</textarea><script>alert(1)</script>": "not a policy",
		strings.Repeat("x", policydoc.MaxBytes+1): "must have at most",
	} {
		got := s.post("/policies/import", url.Values{"yaml": {text}, "version": {"1"}, "reason": {"x"}}).wants(t, http.StatusUnprocessableEntity)
		if !strings.Contains(got.body, want) || strings.Contains(got.body, "<script>alert") {
			t.Errorf("%.40q: no %q", text, want)
		}
	}
	s.post("/policies/import", url.Values{"yaml": {strings.Repeat("x", maxImport)}, "version": {"1"}}).wants(t, http.StatusRequestEntityTooLarge)
	drop := "plans:\n  - name: other\n    limits: [1 per second]\n"
	shown := s.again(s.get("/policies/import"), drop, "").wants(t, http.StatusOK)
	s.again(shown, drop, "tidy").wants(t, http.StatusUnprocessableEntity, "has 2 keys")
	if s.keys.written() != 0 {
		t.Error("something was written")
	}
	s.loginAs(testViewer).get("/policies.yaml").wants(t, http.StatusOK, "plans:")
}
