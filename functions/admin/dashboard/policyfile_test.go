package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/testing/sitetest"
)

var hiddenInPage = regexp.MustCompile(`<input type="hidden" name="(version|seen)" value="([^"]*)"`)

// sendImport sends the import form of a page with a text and a reason.
func sendImport(s *sitetest.Site, page sitetest.Reply, text, reason string) sitetest.Reply {
	s.T.Helper()
	form := url.Values{"yaml": {text}, "reason": {reason}, "action": {"save"}}
	for _, m := range hiddenInPage.FindAllStringSubmatch(page.Body, -1) {
		form.Set(m[1], m[2])
	}
	return s.Post("/policies/import", form)
}

// An exported file can be imported without scripts: the first request previews the
// changes, the second imports them, with a reason. An unseen text is previewed again.
func TestImportPolicies(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/policies").Wants(t, http.StatusOK, `href="/policies.yaml"`, `href="/policies/import"`)
	exported := s.Get("/policies.yaml").Wants(t, http.StatusOK, "- 10 per 10 seconds")
	if !strings.Contains(exported.Header.Get("Content-Disposition"), "tidegate-policies.yaml") {
		t.Errorf("got headers %v, want the file name tidegate-policies.yaml", exported.Header)
	}
	form := s.Get("/policies/import").Wants(t, http.StatusOK, "Review changes")
	sendImport(s, form, exported.Body, "").Wants(t, http.StatusOK, "No changes.", "Review changes")
	text := strings.Replace(exported.Body, "10 per 10 seconds", "25 per 10 seconds", 1)
	preview := sendImport(s, form, text, "").Wants(t, http.StatusOK, "plan free: limits",
		"25 per 10 seconds</bdi></ins>", ">Import</button>")
	if s.Keys.Written() != 0 {
		t.Fatal("the preview wrote something")
	}
	sendImport(s, preview, text, " ").Wants(t, http.StatusUnprocessableEntity, "Enter a reason")
	other := sendImport(s, preview, strings.Replace(text, "25", "26", 1), "more").Wants(t,
		http.StatusConflict, "not the change that you reviewed", "26 per 10 seconds</bdi></ins>")
	if s.Keys.Written() != 0 {
		t.Fatal("a text without a preview was imported")
	}
	sendImport(s, other, strings.Replace(text, "25", "26", 1), "more").Wants(t, http.StatusSeeOther)
	s.Get("/policies").Wants(t, http.StatusOK, "26 per 10 seconds", "Imported 1 change.", "/undo")
	if e, n := s.Set(), s.Keys.Written(); e.Plans[0].Number != 1 || n != 1 {
		t.Errorf("imported %+v in %d changes, want plan number 1 in one change", e, n)
	}
}

// An invalid file gets an error, with its line where there is one. Its text is escaped.
func TestImportErrors(t *testing.T) {
	s := sitetest.New(t).Login()
	for text, want := range map[string]string{
		"plans: [\n":                           "Line ",
		"plnas: []\n":                          "Line 1: unknown field",
		"deny: &amp [x]\nallow: *amp":          "anchor",
		"":                                     "the file is empty",
		"limits:\n  - 9 per hour\n":            "Line 2: limits[0]",
		"</textarea><script>alert(1)</script>": "not a policy",
		strings.Repeat("x", policydoc.MaxBytes+1): "must have at most",
	} {
		got := s.Post("/policies/import",
			url.Values{"yaml": {text}, "version": {"{policy#}"}, "reason": {"x"}}).Wants(t,
			http.StatusUnprocessableEntity)
		if !strings.Contains(got.Body, want) || strings.Contains(got.Body, "<script>alert") {
			t.Errorf("%.40q: the page lacks %q, or has markup of the file", text, want)
		}
	}
	s.Post("/policies/import", url.Values{
		"yaml": {strings.Repeat("x", 4*policydoc.MaxBytes)}, "version": {"{policy#}"},
	}).Wants(t, http.StatusRequestEntityTooLarge)
	drop := "plans:\n  - name: other\n    limits: [1 per second]\n"
	preview := sendImport(s, s.Get("/policies/import"), drop, "").
		Wants(t, http.StatusUnprocessableEntity, "keys use it (2)")
	sendImport(s, preview, drop, "tidy").Wants(t, http.StatusUnprocessableEntity, "keys use it (2)")
	if s.Keys.Written() != 0 {
		t.Error("an invalid file was imported")
	}
	s.LoginAs(sitetest.Viewer).Get("/policies.yaml").Wants(t, http.StatusOK, "plans:")
}
