package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// newSession returns the site with the same user logged in from another browser.
func newSession(s *sitetest.Site) *sitetest.Site {
	s.T.Helper()
	other := *s
	other.Client = s.NewClient()
	return other.Login()
}

// checkUnchanged fails if the site made a change, or revoked acme, before step.
func checkUnchanged(s *sitetest.Site, step string) {
	s.T.Helper()
	if n := s.Keys.Written(); n != 0 || s.Keys.Key("acme").Status != policy.Active {
		s.T.Fatalf("%s: %d changes, want none", step, n)
	}
}

// A link to the bulk page only shows its form, whatever its parameters: it changes
// nothing.
func TestLinkChangesNothing(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, link := range []string{
		"/keys/bulk?do=revoke&of=all&reason=x&confirm=2&count=2&action=save",
		"/keys/bulk?do=reset&of=all&reason=x", "/keys/bulk?do=plan&plan=free&of=all&reason=x&count=2",
		"/keys/bulk?do=revoke&of=selected&id={acme}&reason=x",
		"/keys/bulk?do=override&of=all&reason=x",
	} {
		page := s.Get(link).Wants(t, http.StatusOK, `action="/keys/bulk"`)
		if strings.Contains(page.Body, "data-auto") {
			t.Errorf("%s: the page continues a change by itself", link)
		}
	}
	s.Post("/keys/bulk", fields("progress", "forged")).Wants(t, http.StatusBadRequest, "This page is too old")
	checkUnchanged(s, "after the links")
}

// If another number of keys matches than the form displayed, nothing changes. The form is
// shown again with the new number.
func TestBulkCountChanged(t *testing.T) {
	s := sitetest.New(t).Login()
	page := s.Get("/keys/bulk?do=revoke&of=all").Wants(t, http.StatusOK, "Type 2 to confirm")
	form := sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leaked", "confirm", "2", "action", "save")
	s.Keys.CreateKey("calm", "free")
	again := s.Post("/keys/bulk", form).Wants(t, http.StatusConflict,
		"Nothing changed: 3 keys match now, not 2. Confirm again.", "Type 3 to confirm", "Revoke 3 keys")
	checkUnchanged(s, "after the form with an old number")
	if strings.Contains(again.Body, `name="confirm" value="2"`) {
		t.Error("the form keeps the old confirmation")
	}
	form = sitetest.With(sitetest.HiddenIn(again.Body), "reason", "leaked", "confirm", "3", "action", "save")
	last, _ := s.Finish(s.Post("/keys/bulk", form))
	last.Wants(t, http.StatusOK, "3 changed")
	for _, count := range []string{"x", "-1", "99999999999999999999"} {
		s.Post("/keys/bulk", sitetest.With(form, "count", count)).Wants(t, http.StatusBadRequest)
	}
}

// The bulk form names the group that its keys belong to.
func TestBulkNamesTheGroup(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "big" })
	s.Get("/keys/bulk?do=revoke&of=all&filter=group%3Dbig").Wants(t, http.StatusOK, "Type 1 to confirm",
		"All keys of the group “big”: 1.")
}

// Without a script, links of the bar select the keys of the page or all that match. The
// selection is in the address.
func TestSelectionByLinks(t *testing.T) {
	s := sitetest.New(t).Login()
	list := s.Get("/keys?q=a").Wants(t, http.StatusOK, "select=page", "Select all 1 on this page",
		`name="of" value="selected"`)
	if strings.Contains(list.Body, " checked ") {
		t.Error("keys are ticked without a selection in the address")
	}
	s.Get("/keys?q=a&select=page").Wants(t, http.StatusOK, "All 1 on this page are selected.", "checked")
	s.Get("/keys?select=all").Wants(t, http.StatusOK, `name="of" value="all"`)
	body := s.Get("/keys?select=page&q=a&live=5").Wants(t, http.StatusOK).Body
	if !strings.Contains(body, url.QueryEscape("q")+"=a") {
		t.Error("the selection lost the search")
	}
	viewer := *s
	viewer.Client = s.NewClient()
	if body := viewer.LoginAs(sitetest.Viewer).Get("/keys?select=all").Wants(t,
		http.StatusOK).Body; strings.Contains(body,
		`type="checkbox" name="id"`) {
		t.Error("a viewer can tick keys")
	}
}
