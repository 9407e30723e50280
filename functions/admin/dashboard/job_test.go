package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
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

// A link that anybody can write asks, and changes nothing: it starts no job, and goes on
// with none.
func TestLinkStartsNoJob(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, link := range []string{
		"/keys/bulk?do=revoke&of=all&reason=x&confirm=2&count=2&action=save",
		"/keys/bulk?do=reset&of=all&reason=x", "/keys/bulk?do=plan&to=free&of=all&reason=x&count=2",
		"/keys/bulk?do=revoke&of=selected&id={acme}&reason=x",
		"/keys/bulk?do=override&of=all&reason=x",
	} {
		page := s.Get(link).Wants(t, http.StatusOK, `action="/keys/bulk"`)
		if strings.Contains(page.Body, "data-auto") {
			t.Errorf("%s: goes on by itself", link)
		}
	}
	s.Get("/jobs/nobody").Wants(t, http.StatusNotFound, "No such job")
	s.Post("/jobs/nobody", nil).Wants(t, http.StatusNotFound)
	unchanged(s, "links")
}

// revokeAll revokes every key in a job, and returns its address.
func revokeAll(s *sitetest.Site) string {
	s.T.Helper()
	page := s.Get("/keys/bulk?do=revoke&of=all").Wants(s.T, http.StatusOK, "Revoke 2 keys", "All keys: 2.")
	form := sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leaked", "confirm", "2", "action", "save")
	return s.Post("/keys/bulk", form).Wants(s.T, http.StatusSeeOther).Header.Get("Location")
}

// startRevocation starts a job that revokes every key, and makes no step of it.
func startRevocation(s *sitetest.Site, reason string) app.Job {
	s.T.Helper()
	job, err := s.Services.Keys.StartJob(s.T.Context(), nil,
		app.Job{Do: app.Revoke, Filter: &app.KeyFilter{}, Total: 2},
		app.Edit{By: sitetest.ByTest.By, Reason: reason})
	if err != nil {
		s.T.Fatal(err)
	}
	return job
}

// A job that is left where it is, is found in the list of keys by every editor, who can
// go on with it, stop it and continue it. A viewer sees it, and is offered nothing.
func TestJobIsLeftAndFound(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "leaked")
	at := "/jobs/" + job.ID
	s.Get(at).Wants(t, http.StatusOK, "0 of 2", "data-auto", "</time>, because: <bdi>leaked</bdi>")
	if s.Keys.Key("acme").Status != policy.Active {
		t.Error("to look at a job goes on with it")
	}
	other := anotherSession(s)
	other.Get("/keys").Wants(t, http.StatusOK, "Unfinished: Revoke 2 keys: 0 of 2 done", at)
	other.Post(at+"/stop", nil).Wants(t, http.StatusSeeOther)
	stopped := s.Get(at).Wants(t, http.StatusOK, "Stopped.")
	if strings.Contains(stopped.Body, "data-auto") {
		t.Error("a stopped job goes on by itself")
	}
	s.Post(at, nil).Wants(t, http.StatusSeeOther) // the script of a tab that was open
	s.Get(at).Wants(t, http.StatusOK, "Stopped.", "0 changed")
	viewer := *s
	viewer.Client = s.NewClient()
	seen := viewer.LoginAs(sitetest.Viewer).Get(at).Wants(t, http.StatusOK, "Stopped.")
	for _, absent := range []string{`action="` + at, "Undo this job", "/undo"} {
		if strings.Contains(seen.Body, absent) {
			t.Errorf("a viewer is offered %s", absent)
		}
	}
	s.Post(at, sitetest.HiddenIn(stopped.Body)).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Finished.", "2 changed", "Undo this job")
	if body := s.Get("/keys").Wants(t, http.StatusOK).Body; strings.Contains(body, "Unfinished") {
		t.Error("a job that ended is unfinished")
	}
}

// A job that was stopped stays stopped when Valkey no longer has it: its page starts no
// step by itself, and says why.
func TestStoppedJobThatValkeyLost(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "by mistake")
	at := "/jobs/" + job.ID
	s.Post(at+"/stop", nil).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Stopped.")
	s.Keys.Server.FastForward(31 * 24 * time.Hour)
	s = s.Login()
	page := s.Get(at).Wants(t, http.StatusOK, "Stopped.", "Paused: Valkey lost how far it was")
	if strings.Contains(page.Body, "data-auto") {
		t.Error("it goes on by itself")
	}
	s.Post(at, nil).Wants(t, http.StatusSeeOther) // the script of a tab that was open
	unchanged(s, "a lost job")
	s.Get(at+"/undo").Wants(t, http.StatusConflict, "It changed nothing that can be taken back.")
	s.Post(at, sitetest.HiddenIn(page.Body)).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Finished.", "2 changed")
}

// A stop that was not recorded is an error, and not the job's page.
func TestStopThatFails(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "leaked")
	s.Keys.Server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	s.Post("/jobs/"+job.ID+"/stop", nil).Wants(t, http.StatusServiceUnavailable)
	s.Keys.Server.SetError("")
	s.Get("/jobs/"+job.ID).Wants(t, http.StatusOK, "data-auto")
}

var undoLink = regexp.MustCompile(`href="(/jobs/[A-Z0-9]+/undo)"`)

// The audit says that a job ended, of which job each change was, and takes the job back
// but for what was changed since.
func TestUndoOfJobFromTheAudit(t *testing.T) {
	s := sitetest.New(t).Login()
	at := revokeAll(s)
	entry := s.Get("/audit?what=job.").Wants(t, http.StatusOK, "Revoke 2 keys", "Undo this job")
	s.Get("/audit?job="+strings.TrimPrefix(at, "/jobs/")).Wants(t, http.StatusOK, "part of", "key.revoke", at)
	undo := undoLink.FindStringSubmatch(entry.Body)
	if undo == nil {
		t.Fatal("no link takes the job back")
	}
	s.Keys.UpdateKey("bolt", func(k *policy.Key) { k.Tags = []string{"later"} })
	s.Get(undo[1]).Wants(t, http.StatusOK, "Undo changes of 2 keys", "Restored: 1 key.",
		"Left, because changed since: 1 key.")
	s.Post(undo[1], fields("reason", "")).Wants(t, http.StatusUnprocessableEntity, "Reason is required.")
	last, _ := s.RunJob(s.Post(undo[1], fields("reason", "by mistake")))
	last.Wants(t, http.StatusOK, "1 changed, 0 left", "1 not changed:", ">bolt</bdi></a>: changed since")
	if a, b := s.Keys.Key("acme").Status, s.Keys.Key("bolt").Status; a != policy.Active ||
		b != policy.Revoked {
		t.Errorf("acme %s, bolt %s", a, b)
	}
}

// When other keys match than the form said, nothing happens, and it asks again with the
// number that there is now.
func TestBulkHoldsToItsNumber(t *testing.T) {
	s := sitetest.New(t).Login()
	page := s.Get("/keys/bulk?do=revoke&of=all").Wants(t, http.StatusOK, "Type 2 to confirm")
	form := sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leaked", "confirm", "2", "action", "save")
	s.Keys.CreateKey("calm", "free")
	asked := s.Post("/keys/bulk", form).Wants(t, http.StatusConflict,
		"Nothing changed: 3 keys match now, not 2. Confirm again.", "Type 3 to confirm", "Revoke 3 keys")
	unchanged(s, "another number")
	if strings.Contains(asked.Body, `name="confirm" value="2"`) {
		t.Error("the old confirmation is kept")
	}
	form = sitetest.With(sitetest.HiddenIn(asked.Body), "reason", "leaked", "confirm", "3", "action", "save")
	last, _ := s.RunJob(s.Post("/keys/bulk", form))
	last.Wants(t, http.StatusOK, "3 changed")
	for _, count := range []string{"x", "-1", "99999999999999999999"} {
		s.Post("/keys/bulk", sitetest.With(form, "count", count)).Wants(t, http.StatusBadRequest)
	}
}

// The form names the group whose keys it means.
func TestBulkNamesTheGroup(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "big" })
	s.Get("/keys/bulk?do=revoke&of=all&group=big").Wants(t, http.StatusOK, "Type 1 to confirm",
		"All keys of the group “big”: 1.")
}

// The form says what would have become of the recorded calls of the keys that are meant,
// and of no others.
func TestBulkPreview(t *testing.T) {
	keys := sitetest.NewRegistry(t, "acme", "bolt")
	keys.Plan("small", sitetest.Per(2, time.Hour))
	keys.Called("acme", time.Now().Add(-time.Minute), 5, 1)
	keys.Called("bolt", time.Now().Add(-time.Minute), 40, 0)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	s.Get("/keys/bulk?do=revoke&of=all&q=acme").Wants(t, http.StatusOK,
		"would have denied 6 of 6 calls; 1 were denied", "busiest of these keys")
	s.Get("/keys/bulk?do=revoke&of=selected&id={acme}&id={bolt}").Wants(t, http.StatusOK, "46 of 46 calls")
	form := fields("do", "plan", "of", "selected", "id", keys.IDs["acme"], "to", "small", "action", "preview")
	s.Post("/keys/bulk", form).Wants(t, http.StatusOK, "would have denied 4 of 6 calls", `value="small" selected`)
	s.Post("/keys/bulk", sitetest.With(form, "to", "none")).Wants(t, http.StatusUnprocessableEntity)
	s.Get("/keys/bulk?do=revoke&of=all&tag=none").Wants(t, http.StatusOK, "made no calls")
	unchanged(s, "previews")
}

// Without a script the bar's links select the page, or all that match, and the address
// says so.
func TestSelectionByLinks(t *testing.T) {
	s := sitetest.New(t).Login()
	none := s.Get("/keys?q=a").Wants(t, http.StatusOK, "select=page", "Select all 1 on this page",
		`name="of" value="selected"`)
	if strings.Contains(none.Body, " checked ") {
		t.Error("something is selected from the start")
	}
	s.Get("/keys?q=a&select=page").Wants(t, http.StatusOK, "All 1 on this page are selected.", "checked")
	s.Get("/keys?select=all").Wants(t, http.StatusOK, `name="of" value="all"`)
	body := s.Get("/keys?select=page&q=a&live=5").Wants(t, http.StatusOK).Body
	if !strings.Contains(body, url.QueryEscape("q")+"=a") {
		t.Error("the search is lost by selecting")
	}
	viewer := *s
	viewer.Client = s.NewClient()
	if body := viewer.LoginAs(sitetest.Viewer).Get("/keys?select=all").Wants(t,
		http.StatusOK).Body; strings.Contains(body,
		`type="checkbox" name="id"`) {
		t.Error("a viewer can select")
	}
}
