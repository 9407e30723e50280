package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// A typed end is used, whatever the duration says; one that was only shown is not.
func TestTypedEndIsMeant(t *testing.T) {
	typed := time.Date(2099, 6, 1, 12, 30, 0, 0, time.UTC)
	s := sitetest.New(t).Login()
	version := 0
	save := func(pairs ...string) time.Time {
		t.Helper()
		version++
		row := [4]string{fmt.Sprint(50 + version), "1", "minute", "log"}
		form := sitetest.With(sitetest.LimitsForm(version, row), pairs...)
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
			t.Errorf("%+v: ends %s", row, got)
		}
	}
	ends := save("lasts", "4h", "until", "2099-06-01T12:30", "until-shown", shown)
	if left := time.Until(ends); left > 4*time.Hour || left < 3*time.Hour {
		t.Errorf("a duration over a date that was only shown: %s", left)
	}
	s.Post(limitsPath, sitetest.With(sitetest.LimitsForm(version+1, [4]string{"1", "1", "hour", "log"}),
		"lasts", "4h", "until", "2020-01-01T00:00")).Wants(t, http.StatusUnprocessableEntity,
		"This time is past.")
}

// A save that changes nothing says so, and neither writes nor records anything.
func TestNothingChanged(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) {
		k.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	})
	written := s.Keys.Written()
	for _, path := range []string{"/keys/{acme}/edit", "/policies/plans/1"} {
		form := sitetest.FormIn(s.Get(path).Wants(t, http.StatusOK).Body)
		s.Post(path, sitetest.With(form, "reason", "none", "action", "save")).Wants(t, http.StatusSeeOther)
		s.Get("/keys").Wants(t, http.StatusOK, "Nothing changed.")
	}
	if s.Keys.Written() != written || s.Keys.Key("acme").Version != 2 {
		t.Error("something was written")
	}
	for version := range 2 {
		form := sitetest.LimitsForm(2+version, [4]string{"50", "1", "minute", "log"})
		s.Post(limitsPath, form).Wants(t, http.StatusSeeOther)
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed. Limits are still 50 per minute.")
	if v := s.Keys.Key("acme").Version; v != 3 {
		t.Errorf("version %d", v)
	}
}

// What a save of the policy would do to callers is said before, and is to be confirmed;
// another warning is not confirmed by the word for this one.
func TestWarningsBeforeHarm(t *testing.T) {
	s := sitetest.New(t).Login()
	const path = "/policies/shared"
	base := func(pairs ...string) url.Values {
		form := sitetest.FormIn(s.Get(path).Wants(t, http.StatusOK).Body)
		return sitetest.With(form, append([]string{"reason", "test", "action", "save"}, pairs...)...)
	}
	warned := func(form url.Values, text string) string {
		t.Helper()
		page := s.Post(path, form).Wants(t, http.StatusUnprocessableEntity, text, "Save anyway")
		return sitetest.HiddenIn(page.Body).Get("accepted")
	}
	accepted := warned(base("allow", "203.0.113.0/24"),
		"Calls from everywhere but 203.0.113.0/24 are refused.")
	all := base("allow", "203.0.113.0/24", "deny", "203.0.0.0/16", "accepted", accepted)
	warned(all, "Every call is refused: no address is left that may call.")
	warned(base("deny", "0.0.0.0/0 ::/0"), "Every call is refused")
	if s.Keys.Written() != 0 {
		t.Fatal("something was saved")
	}
	s.Post(path, base("allow", "203.0.113.0/24, 198.51.100.0/24", "accepted",
		warned(base("allow", "203.0.113.0/24, 198.51.100.0/24"), "203.0.113.0/24, 198.51.100.0/24"))).
		Wants(t, http.StatusSeeOther)
	warned(base("allow", "203.0.113.0/24"), "Calls from 198.51.100.0/24 are refused.")
	s.Post(path, base("allow", "203.0.113.0/24\n198.51.0.0/16")).Wants(t, http.StatusSeeOther)
	row := [4]string{"1", "1", "second", "log"}
	moot := sitetest.LimitsForm(1, row, [4]string{"60", "1", "minute", "log"})
	const never = "60 per minute never denies a call: 1 per second is stricter."
	s.Post(limitsPath, moot).Wants(t, http.StatusUnprocessableEntity, never)
	seen := s.Post(limitsPath, sitetest.With(moot, "action", "preview")).Wants(t, http.StatusOK, never)
	moot.Set("accepted", sitetest.HiddenIn(seen.Body).Get("accepted"))
	s.Post(limitsPath, sitetest.With(moot, "action", "save")).Wants(t, http.StatusSeeOther)
}

// A plan says how many keys have it, and an edit of one with many says so again.
func TestPlanOfManyKeys(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("key-%04d", i)
	}
	keys.Plan("free", sitetest.Per(10, time.Minute))
	for _, name := range names {
		keys.CreateKey(name, "free")
	}
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	page := s.Get("/policies/plans/1").Wants(t, http.StatusOK, "Keys with this plan: 1,000.")
	form := sitetest.With(sitetest.FormIn(page.Body), "limits[0].requests", "11", "reason", "x",
		"action", "save")
	s.Post("/policies/plans/1", form).Wants(t, http.StatusUnprocessableEntity,
		"Plan free: this acts on 1,000 keys at once.", "Save anyway")
	s.PostAnyway("/policies/plans/1", form).Wants(t, http.StatusSeeOther)
}

// A second rotation names the secret that it ends, and asks; the old secret can be ended
// by itself, and its last use is shown.
func TestRotationInGrace(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post("/keys/{acme}/rotate", fields("version", "1", "grace", "24h")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Old secret not used in 30 days.", "Expire old secret")
	at := time.Now().Add(-5 * time.Minute)
	s.Keys.Record(usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true,
		Verdict: usage.OldSecret, Cost: 1,
		Time: at})
	used := "Old secret last used " + at.UTC().Truncate(time.Minute).Format(time.DateTime) + " UTC."
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, used)
	page := s.Get("/keys/{acme}/rotate").Wants(t, http.StatusOK, "The old secret, replaced by ada on ",
		"This ends it now.", "Rotate secret anyway", used)
	form := fields("version", "2", "grace", "24h")
	s.Post("/keys/{acme}/rotate", form).Wants(t, http.StatusUnprocessableEntity, "This ends it now.")
	if s.Keys.Key("acme").Version != 2 {
		t.Fatal("rotated unconfirmed")
	}
	form["accepted"] = []string{sitetest.HiddenIn(page.Body).Get("accepted")}
	s.Post("/keys/{acme}/rotate", form).Wants(t, http.StatusSeeOther)
	s.Post("/keys/{acme}/expire-secret", fields("version", "3")).Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); !k.Grace.IsZero() || k.Version != 4 {
		t.Errorf("after the end: %+v", k)
	}
	body := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Old secret expired.").Body
	if strings.Contains(body, "Expire old secret") {
		t.Error("a secret that is gone can be expired")
	}
	s.Post("/keys/{acme}/expire-secret", fields("version", "4")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed.")
}

// All keys are revoked or reset only by whoever types how many they are.
func TestBulkIsConfirmed(t *testing.T) {
	s := sitetest.New(t).Login()
	form := fields("do", "revoke", "of", "all", "reason", "leak", "action", "save", "count", "2")
	s.Get("/keys/bulk?do=revoke&of=all").Wants(t, http.StatusOK, "Type 2 to confirm")
	for _, typed := range []string{"", "3", "revoke", "2x"} {
		form["confirm"] = []string{typed}
		s.Post("/keys/bulk", form).Wants(t, http.StatusUnprocessableEntity, "Type 2 to confirm.")
	}
	unchanged(s, "unconfirmed")
	banned := fields("do", "reset", "of", "all", "state", "banned", "reason", "x", "confirm", "1", "count",
		"0")
	s.Post("/keys/bulk", banned).Wants(t, http.StatusUnprocessableEntity, "Type 0 to confirm.")
	form["confirm"] = []string{" 2 "}
	last, _ := s.RunJob(s.Post("/keys/bulk", form))
	last.Wants(t, http.StatusOK, "2 changed")
}
