package dashboard

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/policy"
)

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)

// hiddenIn reads the hidden fields of a page's form.
func hiddenIn(page string) url.Values {
	form := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		if m[1] != "next" { // the theme's form has it
			form.Add(m[1], html.UnescapeString(m[2]))
		}
	}
	return form
}

// anotherSession is the same person in another browser.
func (s *site) anotherSession() *site {
	s.t.Helper()
	other := *s
	other.client = s.newClient()
	return other.login()
}

// unchanged fails when anything was written since the site began.
func (s *site) unchanged(after string) {
	s.t.Helper()
	if n := s.keys.written(); n != 0 || s.keys.key("acme").Status != policy.Active {
		s.t.Fatalf("%s: %d changes", after, n)
	}
}

// A link that anybody can write asks, and changes nothing: neither its page nor what a
// script makes of it. What its form then starts does.
func TestLinkStartsNoJob(t *testing.T) {
	s := newSite(t).login()
	for _, link := range []string{
		"/keys/job?do=revoke&of=all&reason=x", "/keys/job?do=revoke&of=all&reason=x&seal=", "/keys/job?do=reset&of=all&reason=x&seal=AAAA&total=1",
		"/keys/job?do=plan&to=free&of=all&reason=x&done=1&after-key=AA", "/keys/job?do=revoke&of=selected&id={acme}&reason=x",
		"/keys/job?do=override&of=all&reason=x", "/keys/job?do=revoke&of=all&reason=x&finished=yes&done=9",
	} {
		page := s.get(link).wants(t, http.StatusOK, "Nothing was changed", `action="/keys/bulk"`)
		for _, wrong := range []string{"data-auto", `action="/keys/job"`, "Finished", `name="seal"`, "all keys (1)", `name="after-key"`} {
			if strings.Contains(page.body, wrong) {
				t.Errorf("%s: the page has %s", link, wrong)
			}
		}
	}
	s.unchanged("links")
	page := s.get("/keys/job?do=revoke&of=all&reason=leaked").wants(t, http.StatusOK, "all keys (2)", `value="leaked"`)
	last, _ := s.runJob(s.post("/keys/bulk", with(hiddenIn(page.body), "reason", "leaked", "action", "save")))
	last.wants(t, http.StatusOK, "2 changed")
	if s.keys.key("acme").Status != policy.Revoked {
		t.Error("a job that was asked for did not run")
	}
}

// A step needs the seal of the session that started the job, over all that the job does;
// progress, reloads and another order leave it good.
func TestJobStepNeedsSeal(t *testing.T) {
	s := newSite(t).login()
	started := func(s *site, more ...string) url.Values {
		t.Helper()
		form := fields(append([]string{"do", "revoke", "of", "all", "q", "a", "reason", "mine"}, more...)...)
		at := s.post("/keys/bulk", form).wants(t, http.StatusSeeOther).Header.Get("Location")
		s.get(at).wants(t, http.StatusOK, "data-auto", "Under way.")
		return hiddenIn(s.get(at).wants(t, http.StatusOK, "data-auto", `action="/keys/job"`).body)
	}
	refused := func(what string, form url.Values) {
		t.Helper()
		answer := s.post("/keys/job", form).wants(t, http.StatusForbidden, "Nothing was changed", `action="/keys/bulk"`)
		if strings.Contains(answer.body, "data-auto") {
			t.Errorf("%s: goes on by itself", what)
		}
		s.unchanged(what)
	}
	refused("no seal", fields("do", "revoke", "of", "all", "reason", "x"))
	refused("another session's", started(s.anotherSession()))
	for name, value := range map[string]string{
		"seal": "AAAA", "do": "reset", "of": "selected", "q": "", "tag": "x", "state": "near", "plan": "1", "reason": "other", "total": "7", "to": "free",
	} {
		form := with(started(s), name, value)
		if value == "selected" {
			form.Add("id", s.keys.ids["acme"])
		}
		refused(name, form)
	}
	s.unchanged("starting")
	form := with(started(s), "after-key", "", "skipped", "3", "action", "save")
	last, steps := s.runJob(s.post("/keys/job", form))
	if last.wants(t, http.StatusOK, "1 changed, 3 left"); steps != 0 || s.keys.key("acme").Status != policy.Revoked || s.keys.written() != 1 {
		t.Errorf("%d steps, %d changes", steps, s.keys.written())
	}
}
