package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
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

// checkUnchanged fails if the site wrote an audit entry, or revoked acme, before step.
func checkUnchanged(s *sitetest.Site, step string) {
	s.T.Helper()
	if n := s.Keys.Written(); n != 0 || s.Keys.Key("acme").Status != policy.Active {
		s.T.Fatalf("%s: %d changes, want none", step, n)
	}
}

// A link to the bulk page only shows its form, whatever its parameters: it starts and
// continues no job.
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
			t.Errorf("%s: the page continues a job by itself", link)
		}
	}
	s.Get("/jobs/nobody").Wants(t, http.StatusNotFound, "No such job")
	s.Post("/jobs/nobody", nil).Wants(t, http.StatusNotFound)
	checkUnchanged(s, "after the links")
}

// revokeAll revokes every key in a job, and returns the job's path.
func revokeAll(s *sitetest.Site) string {
	s.T.Helper()
	page := s.Get("/keys/bulk?do=revoke&of=all").Wants(s.T, http.StatusOK, "Revoke 2 keys", "All keys: 2.")
	form := sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leaked", "confirm", "2", "action", "save")
	return s.Post("/keys/bulk", form).Wants(s.T, http.StatusSeeOther).Header.Get("Location")
}

// startRevocation starts a job that revokes every key, without running a step.
func startRevocation(s *sitetest.Site, reason string) app.Job {
	s.T.Helper()
	job, err := s.Services.Keys.StartJob(s.T.Context(), nil,
		app.Job{KeyChange: app.KeyChange{Do: app.Revoke}, Filter: &app.KeyFilter{}, Total: 2},
		nil, app.Edit{By: sitetest.ByTest.By, Reason: reason})
	if err != nil {
		s.T.Fatal(err)
	}
	return job
}

// The list of keys links to an interrupted job. Every editor can stop and continue it. A
// viewer sees the job without its buttons.
func TestInterruptedJob(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "leaked")
	at := "/jobs/" + job.ID
	s.Get(at).Wants(t, http.StatusOK, "0 of 2", "data-auto", "</time>. Reason: <bdi>leaked</bdi>")
	if s.Keys.Key("acme").Status != policy.Active {
		t.Error("showing the job ran a step")
	}
	other := newSession(s)
	other.Get("/keys").Wants(t, http.StatusOK, "Unfinished: Revoke 2 keys: 0 of 2 done", at)
	other.Post(at+"/stop", nil).Wants(t, http.StatusSeeOther)
	stopped := s.Get(at).Wants(t, http.StatusOK, "Stopped.")
	if strings.Contains(stopped.Body, "data-auto") {
		t.Error("the page of a stopped job continues it by itself")
	}
	s.Post(at, nil).Wants(t, http.StatusSeeOther) // the script of a tab that was open
	s.Get(at).Wants(t, http.StatusOK, "Stopped.", "0 changed")
	viewer := *s
	viewer.Client = s.NewClient()
	viewed := viewer.LoginAs(sitetest.Viewer).Get(at).Wants(t, http.StatusOK, "Stopped.")
	for _, absent := range []string{`action="` + at, "Undo this job", "/undo"} {
		if strings.Contains(viewed.Body, absent) {
			t.Errorf("the page of a viewer has %s", absent)
		}
	}
	s.Post(at, sitetest.HiddenIn(stopped.Body)).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Finished.", "2 changed", "Undo this job")
	if body := s.Get("/keys").Wants(t, http.StatusOK).Body; strings.Contains(body, "Unfinished") {
		t.Error("the list of keys links to a finished job")
	}
}

// A stopped job stays stopped after Valkey lost its progress: its page starts no step by
// itself, and states the reason.
func TestStoppedJobWithLostProgress(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "by mistake")
	at := "/jobs/" + job.ID
	s.Post(at+"/stop", nil).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Stopped.")
	s.Keys.Server.FastForward(31 * 24 * time.Hour)
	s = s.Login()
	page := s.Get(at).Wants(t, http.StatusOK, "Stopped.", "Paused: Valkey lost the progress of the job")
	if strings.Contains(page.Body, "data-auto") {
		t.Error("the page continues the job by itself")
	}
	s.Post(at, nil).Wants(t, http.StatusSeeOther) // the script of a tab that was open
	checkUnchanged(s, "after the script's request")
	s.Get(at+"/undo").Wants(t, http.StatusConflict, "None of its changes can be undone.")
	s.Post(at, sitetest.HiddenIn(page.Body)).Wants(t, http.StatusSeeOther)
	s.Get(at).Wants(t, http.StatusOK, "Finished.", "2 changed")
}

// A stop that Valkey refuses gives an error, and the job continues.
func TestStopFails(t *testing.T) {
	s := sitetest.New(t).Login()
	job := startRevocation(s, "leaked")
	s.Keys.Server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	s.Post("/jobs/"+job.ID+"/stop", nil).Wants(t, http.StatusServiceUnavailable)
	s.Keys.Server.SetError("")
	s.Get("/jobs/"+job.ID).Wants(t, http.StatusOK, "data-auto")
}

var undoLink = regexp.MustCompile(`href="(/jobs/[A-Z0-9]+/undo)"`)

// The audit log links to the undo of a finished job, and from each change to its job. The
// undo skips keys that were changed since.
func TestUndoJobFromAuditLog(t *testing.T) {
	s := sitetest.New(t).Login()
	at := revokeAll(s)
	entry := s.Get("/audit?what=job.").Wants(t, http.StatusOK, "Revoke 2 keys", "Undo this job")
	s.Get("/audit?job="+strings.TrimPrefix(at, "/jobs/")).Wants(t, http.StatusOK, "Part of", " revoked", at)
	undo := undoLink.FindStringSubmatch(entry.Body)
	if undo == nil {
		t.Fatal("the audit log has no link to undo the job")
	}
	s.Keys.UpdateKey("bolt", func(k *policy.Key) { k.Tags = []string{"later"} })
	s.Get(undo[1]).Wants(t, http.StatusOK, "Undo changes of 2 keys", "Restores 1 key.",
		"Skips 1 key: changed since.")
	s.Post(undo[1], fields("reason", "")).Wants(t, http.StatusUnprocessableEntity, "Reason is required.")
	last, _ := s.RunJob(s.Post(undo[1], fields("reason", "by mistake")))
	last.Wants(t, http.StatusOK, "1 changed, 0 unchanged", "1 could not be changed:",
		">bolt</bdi></a>: The key was changed since.")
	if a, b := s.Keys.Key("acme").Status, s.Keys.Key("bolt").Status; a != policy.Active ||
		b != policy.Revoked {
		t.Errorf("acme is %s and bolt %s, want active and revoked", a, b)
	}
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
	last, _ := s.RunJob(s.Post("/keys/bulk", form))
	last.Wants(t, http.StatusOK, "3 changed")
	for _, count := range []string{"x", "-1", "99999999999999999999"} {
		s.Post("/keys/bulk", sitetest.With(form, "count", count)).Wants(t, http.StatusBadRequest)
	}
}

// The bulk form names the group that its keys belong to.
func TestBulkNamesTheGroup(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "big" })
	s.Get("/keys/bulk?do=revoke&of=all&group=big").Wants(t, http.StatusOK, "Type 1 to confirm",
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

// The list of jobs says who did what to how many keys, and offers to undo what can be
// undone and is not yet. A viewer sees it without the undo.
func TestListOfJobs(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/jobs").Wants(t, http.StatusOK, "No jobs in 30 days", "/audit?what=job.start")
	at := revokeAll(s)
	s.Get(at).Wants(t, http.StatusOK, `<a href="/jobs"><bdi>Jobs</bdi></a>`)
	list := s.Get("/jobs").Wants(t, http.StatusOK, "Revoke 2 keys", "ada", "Reason: <bdi>leaked</bdi>",
		">Finished<", "2 changed, 0 unchanged", `href="`+at+`/undo"`)
	viewer := *s
	viewer.Client = s.NewClient()
	if body := viewer.LoginAs(sitetest.Viewer).Get("/jobs").Wants(t, http.StatusOK,
		"Revoke 2 keys").Body; strings.Contains(body, "/undo") {
		t.Error("a viewer can undo a job")
	}
	s.RunJob(s.Post(undoInList.FindString(list.Body), fields("reason", "by mistake")))
	startRevocation(s, "again")
	list = s.Get("/jobs").Wants(t, http.StatusOK, "Undo changes of 2 keys", ">undone</a>",
		"Running: 0 of 2", "0 changed, 0 unchanged")
	if at := strings.Index(list.Body, "again"); at < 0 || at > strings.Index(list.Body, "by mistake") {
		t.Error("the newest job is not the first")
	}
	if n := len(undoInList.FindAllString(list.Body, -1)); n != 1 {
		t.Errorf("%d jobs can be undone, want only the undo", n)
	}
}

var undoInList = regexp.MustCompile(`/jobs/[A-Z0-9]+/undo`)
