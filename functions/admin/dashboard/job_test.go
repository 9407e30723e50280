package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
)

// anotherSession is the same person in another browser.
func anotherSession(s *sitetest.Site) *sitetest.Site {
	s.T.Helper()
	other := *s
	other.Client = s.NewClient()
	return other.Login()
}

// unchanged fails when anything was written since the site began.
func unchanged(s *sitetest.Site, after string) {
	s.T.Helper()
	if n := s.Keys.Written(); n != 0 || s.Keys.Key("acme").Status != policy.Active {
		s.T.Fatalf("%s: %d changes", after, n)
	}
}

// A link that anybody can write asks, and changes nothing: neither its page nor what a
// script makes of it. What its form then starts does.
func TestLinkStartsNoJob(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, link := range []string{
		"/keys/job?do=revoke&of=all&reason=x", "/keys/job?do=revoke&of=all&reason=x&seal=",
		"/keys/job?do=reset&of=all&reason=x&seal=AAAA&total=1",
		"/keys/job?do=plan&to=free&of=all&reason=x&done=1&after-key=AA",
		"/keys/job?do=revoke&of=selected&id={acme}&reason=x",
		"/keys/job?do=override&of=all&reason=x", "/keys/job?do=revoke&of=all&reason=x&finished=yes&done=9",
	} {
		page := s.Get(link).Wants(t, http.StatusOK, "Nothing changed", `action="/keys/bulk"`)
		for _, wrong := range []string{"data-auto", `action="/keys/job"`, "Finished", `name="seal"`,
			"all keys (1)", `name="after-key"`} {
			if strings.Contains(page.Body, wrong) {
				t.Errorf("%s: the page has %s", link, wrong)
			}
		}
	}
	unchanged(s, "links")
	page := s.Get("/keys/job?do=revoke&of=all&reason=leaked").Wants(
		t, http.StatusOK, "all keys (2)", `value="leaked"`,
	)
	last, _ := s.RunJob(
		s.Post("/keys/bulk", sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leaked",
			"confirm", "2", "action", "save")),
	)
	last.Wants(t, http.StatusOK, "2 changed")
	if s.Keys.Key("acme").Status != policy.Revoked {
		t.Error("a job that was asked for did not run")
	}
}

// A step needs the seal of the session that started the job, over all that the job does;
// progress, reloads and another order leave it good.
func TestJobStepNeedsSeal(t *testing.T) {
	s := sitetest.New(t).Login()
	started := func(s *sitetest.Site, more ...string) url.Values {
		t.Helper()
		form := fields(append([]string{"do", "revoke", "of", "all", "q", "a", "reason", "mine",
			"confirm", "1"}, more...)...)
		at := s.Post("/keys/bulk", form).Wants(t, http.StatusSeeOther).Header.Get("Location")
		s.Get(at).Wants(t, http.StatusOK, "data-auto", "In progress.")
		return sitetest.HiddenIn(s.Get(at).Wants(t, http.StatusOK, "data-auto", `action="/keys/job"`).Body)
	}
	refused := func(what string, form url.Values) {
		t.Helper()
		answer := s.Post("/keys/job", form).Wants(
			t, http.StatusForbidden, "Nothing changed", `action="/keys/bulk"`,
		)
		if strings.Contains(answer.Body, "data-auto") {
			t.Errorf("%s: goes on by itself", what)
		}
		unchanged(s, what)
	}
	refused("no seal", fields("do", "revoke", "of", "all", "reason", "x"))
	refused("another session's", started(anotherSession(s)))
	for name, value := range map[string]string{
		"seal": "AAAA", "do": "reset", "of": "selected", "q": "", "tag": "x", "state": "near", "plan": "1",
		"reason": "other", "total": "7", "to": "free",
	} {
		form := sitetest.With(started(s), name, value)
		if value == "selected" {
			form.Add("id", s.Keys.IDs["acme"])
		}
		refused(name, form)
	}
	unchanged(s, "starting")
	form := sitetest.With(started(s), "after-key", "", "skipped", "3", "action", "save")
	last, steps := s.RunJob(s.Post("/keys/job", form))
	if last.Wants(
		t, http.StatusOK, "1 changed, 3 left",
	); steps != 0 || s.Keys.Key("acme").Status != policy.Revoked || s.Keys.Written() != 1 {
		t.Errorf("%d steps, %d changes", steps, s.Keys.Written())
	}
}
