package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"

	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// A typed end wins over the chosen duration. An end that the form displayed, and that was
// not edited, does not.
func TestTypedEndWins(t *testing.T) {
	typed := time.Date(2099, 6, 1, 12, 30, 0, 0, time.UTC)
	s := sitetest.New(t).Login()
	version := 0
	save := func(pairs ...string) time.Time {
		t.Helper()
		version++
		row := fmt.Sprint(50+version) + " per minute"
		form := sitetest.With(sitetest.LimitsForm("{acme#}", row), pairs...)
		s.Post(limitsPath, form).Wants(t, http.StatusSeeOther)
		return s.Keys.Key("acme").Override.Until
	}
	shown := typed.Format(time.RFC3339)
	for _, row := range []struct {
		lasts, until, shown string
		want                time.Time
	}{
		{"never", "2099-06-01T12:30", "", typed},
		{"4h", "2099-06-01T12:30", "", typed},
		{"at", "2099-06-01 12:30 UTC", "", typed},
		{"never", "2099-06-01T12:30", shown, time.Time{}},
		{"at", "2099-06-01T12:30", typed.Add(7 * time.Second).Format(time.RFC3339),
			typed.Add(7 * time.Second)},
		{"never", "2099-07-01T12:30", shown, typed.AddDate(0, 1, 0)},
		{"at", "2099-06-01T12:30", "9999-01-01T00:00:00Z", typed},
	} {
		if got := save("lasts", row.lasts, "until", row.until, "until-shown",
			row.shown); !got.Equal(row.want) {
			t.Errorf("%+v: got the end %s, want %s", row, got, row.want)
		}
	}
	ends := save("lasts", "4h", "until", "2099-06-01T12:30", "until-shown", shown)
	if left := time.Until(ends); left > 4*time.Hour || left < 3*time.Hour {
		t.Errorf("the chosen duration ends in %s, want 4 hours: the displayed end was not edited", left)
	}
	s.Post(limitsPath, sitetest.With(sitetest.LimitsForm("{acme#}", "1 per hour"),
		"lasts", "4h", "until", "2020-01-01T00:00")).Wants(t, http.StatusUnprocessableEntity,
		"must be in the future")
	ended := time.Now().Add(-time.Minute).UTC().Truncate(time.Second) // since the form was shown
	s.Post(limitsPath, sitetest.With(sitetest.LimitsForm("{acme#}", "1 per hour"), "lasts", "at", "until",
		ended.Format("2006-01-02T15:04"), "until-shown", ended.Format(time.RFC3339))).
		Wants(t, http.StatusUnprocessableEntity, "must be in the future")
}

// A save without a change shows a message, and writes nothing to Valkey or the audit.
func TestNothingChanged(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) {
		k.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	})
	written := s.Keys.Written()
	for _, path := range []string{"/keys/{acme}/edit", "/policies/plans/1/edit"} {
		form := sitetest.FormIn(s.Get(path).Wants(t, http.StatusOK).Body)
		s.Post(path, sitetest.With(form, "reason", "none", "action", "save")).Wants(t, http.StatusSeeOther)
		s.Get("/keys").Wants(t, http.StatusOK, "Nothing changed.")
	}
	if s.Keys.Written() != written {
		t.Error("a save without a change was written")
	}
	for range 2 {
		form := sitetest.LimitsForm("{acme#}", "50 per minute")
		s.Post(limitsPath, form).Wants(t, http.StatusSeeOther)
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed. Limits are still 50 per minute.")
	if n := s.Keys.Written() - written; n != 1 {
		t.Errorf("got %d changes, want 1: one of the two saves changes nothing", n)
	}
}

// A save that would refuse callers, or has a limit without effect, needs a confirmation.
// The confirmation of one warning does not confirm another.
func TestWarningsNeedConfirmation(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/policies/all"
	base := func(pairs ...string) url.Values {
		form := sitetest.FormIn(s.Get(path).Wants(t, http.StatusOK).Body)
		return sitetest.With(form, append([]string{"reason", "test", "action", "save"}, pairs...)...)
	}
	wantWarning := func(form url.Values, text string) (accepted string) {
		t.Helper()
		page := s.Post(path, form).Wants(t, http.StatusUnprocessableEntity, text, "Save anyway")
		return sitetest.HiddenIn(page.Body).Get("accepted")
	}
	accepted := wantWarning(base("allow", "203.0.113.0/24"),
		"Calls from all addresses except 203.0.113.0/24 are refused.")
	all := base("allow", "203.0.113.0/24", "deny", "203.0.0.0/16", "accepted", accepted)
	wantWarning(all, "Every call is refused: no address is allowed.")
	wantWarning(base("deny", "0.0.0.0/0 ::/0"), "Every call is refused")
	if s.Keys.Written() != 0 {
		t.Fatal("an unconfirmed form was saved")
	}
	s.Post(path, base("allow", "203.0.113.0/24, 198.51.100.0/24", "accepted",
		wantWarning(base("allow", "203.0.113.0/24, 198.51.100.0/24"), "203.0.113.0/24, 198.51.100.0/24"))).
		Wants(t, http.StatusSeeOther)
	wantWarning(base("allow", "203.0.113.0/24"), "Calls from 198.51.100.0/24 are refused.")
	s.Post(path, base("allow", "203.0.113.0/24\n198.51.0.0/16")).Wants(t, http.StatusSeeOther)
	row := "1 per second"
	moot := sitetest.LimitsForm("{acme#}", row, "60 per minute")
	const warning = "&#34;60 per minute&#34; never decides: " +
		"&#34;1 per second&#34; denies every call before it."
	s.Post(limitsPath, moot).Wants(t, http.StatusUnprocessableEntity, warning)
	preview := s.Post(limitsPath, sitetest.With(moot, "action", "preview")).Wants(t, http.StatusOK, warning)
	moot.Set("accepted", sitetest.HiddenIn(preview.Body).Get("accepted"))
	s.Post(limitsPath, sitetest.With(moot, "action", "save")).Wants(t, http.StatusSeeOther)

	const bulk = "/keys/bulk?do=override&of=selected&id={acme}"
	many := sitetest.With(sitetest.FormIn(s.Get(bulk).Body), "limits", row+"\n60 per minute",
		"reason", "x", "action", "save")
	s.Post("/keys/bulk", sitetest.With(many, "action", "preview")).Wants(t, http.StatusOK, warning)
	many = reviewed(s, many)
	s.Post("/keys/bulk", many).Wants(t, http.StatusUnprocessableEntity, warning, " anyway")
	s.PostAnyway("/keys/bulk", sitetest.With(many, "action", "save")).Wants(t, http.StatusSeeOther)
}

// The form of a plan shows its number of keys. An edit of a plan with 1,000 keys needs a
// confirmation.
func TestPlanOfManyKeys(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.CreateKeys(1000, "free")
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	page := s.Get("/policies/plans/1/edit").Wants(t, http.StatusOK, "Keys with this plan: 1,000.")
	form := sitetest.With(sitetest.FormIn(page.Body), "limits", "11 per minute", "reason", "x",
		"action", "save")
	s.Post("/policies/plans/1/edit", form).Wants(t, http.StatusUnprocessableEntity,
		"Plan free: this affects 1,000 keys at once.", "Save anyway")
	s.PostAnyway("/policies/plans/1/edit", form).Wants(t, http.StatusSeeOther)
}

// A rotation within the grace period of the previous one needs a confirmation. The page
// shows the last use of the previous secret, which can also be expired.
func TestRotationInGrace(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post("/keys/{acme}/rotate", fields("version", "{acme#}", "grace", "24h")).Wants(t, http.StatusSeeOther)
	rotated := s.Keys.Key("acme").Version
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Previous secret not used in 30 days.",
		"Expire previous secret")
	at := time.Now().Add(-5 * time.Minute)
	s.Keys.Record(records.Call{Caller: s.Keys.IDs["acme"], Registered: true, OldSecret: true, Cost: 1,
		Time: at})
	used := "Previous secret last used " + at.UTC().Truncate(time.Minute).Format(time.DateTime) + " UTC."
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, used)
	page := s.Get("/keys/{acme}/rotate").Wants(t, http.StatusOK, "The previous secret, replaced by ada on ",
		"Rotating expires it now.", "Rotate secret anyway", used)
	form := fields("version", "{acme#}", "grace", "24h")
	s.Post("/keys/{acme}/rotate", form).Wants(t, http.StatusUnprocessableEntity, "Rotating expires it now.")
	if s.Keys.Key("acme").Version != rotated {
		t.Fatal("an unconfirmed rotation was saved")
	}
	form["accepted"] = []string{sitetest.HiddenIn(page.Body).Get("accepted")}
	s.Post("/keys/{acme}/rotate", form).Wants(t, http.StatusSeeOther)
	s.Post("/keys/{acme}/expire-secret", fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); !k.Grace.IsZero() || k.Version != rotated+2 {
		t.Errorf("after the expiry: %+v, want no grace period and two more changes", k)
	}
	body := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Previous secret expired.").Body
	if strings.Contains(body, "Expire previous secret") {
		t.Error("the page offers to expire a secret that has expired")
	}
	s.Post("/keys/{acme}/expire-secret", fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed.")
}

// A revocation, a ban or a reset of all matching keys needs their number, typed, as
// confirmation.
func TestBulkNeedsConfirmation(t *testing.T) {
	s := sitetest.New(t).Login()
	page := s.Get("/keys/bulk?do=revoke&of=all").Wants(t, http.StatusOK, "Type 2 to confirm")
	form := sitetest.With(sitetest.HiddenIn(page.Body), "reason", "leak", "action", "save")
	for _, typed := range []string{"", "3", "revoke", "2x"} {
		form["confirm"] = []string{typed}
		s.Post("/keys/bulk", form).Wants(t, http.StatusUnprocessableEntity,
			"Must be 2, the number of keys that match.")
	}
	checkUnchanged(s, "after wrong confirmations")
	banned := reviewed(
		s,
		fields("do", "reset", "of", "all", "filter", "state=banned", "reason", "x", "confirm", "1",
			"count", "0"),
	)
	s.Post("/keys/bulk", banned).Wants(t, http.StatusUnprocessableEntity, "Must be 0, the number")
	ban := reviewed(s, fields("do", "ban", "of", "all", "count", "2", "reason", "x", "lasts", "1h"))
	s.Post("/keys/bulk", ban).Wants(t, http.StatusUnprocessableEntity,
		"Must be 2, the number of keys that match.")
	form["confirm"] = []string{" 2 "}
	last, _ := s.Finish(s.Post("/keys/bulk", form))
	last.Wants(t, http.StatusOK, "2 changed")
}

// The import and the undo of a save show the warnings that a form shows, and save only
// after a click that confirms them.
func TestWarningsOfImportAndUndo(t *testing.T) {
	const warning = "Every call is refused: no address is allowed."
	s := sitetest.New(t).Login()
	file := s.Get("/policies.yaml").Wants(t, http.StatusOK).Body + "deny: [0.0.0.0/0, '::/0']\n"
	form := url.Values{"yaml": {file}, "version": {"{policy#}"}, "reason": {"x"}, "action": {"preview"}}
	shown := sitetest.FormIn(s.Post("/policies/import", form).Wants(t, http.StatusOK, warning).Body)
	form.Set("seen", shown.Get("seen"))
	form.Set("action", "save")
	s.Post("/policies/import", form).Wants(t, http.StatusUnprocessableEntity, warning)
	s.Post("/policies/import", sitetest.With(shown, "yaml", file, "reason", "x", "action", "save")).
		Wants(t, http.StatusSeeOther)
	s.Keys.Save(func(set *policy.Set) { set.Deny = nil })
	entries, err := s.Keys.Audit(t.Context(), registry.AuditQuery{Subject: app.PolicyRecord, Count: 1})
	s.Keys.Must(err)
	undo := fmt.Sprintf("/audit/%d/undo", entries.Entries[0].Number)
	s.Post(undo, url.Values{}).Wants(t, http.StatusUnprocessableEntity, warning)
	again := sitetest.FormIn(s.Get(undo).Wants(t, http.StatusOK, warning).Body)
	s.Post(undo, sitetest.With(again, "reason", "x")).Wants(t, http.StatusSeeOther)
}
