package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

const limitsPath = "/keys/{acme}/limits"

// withLimits is the option of a registry with the key acme, whose plan has the limits.
func withLimits(t *testing.T, list ...limits.Limit) sitetest.Option {
	keys := sitetest.NewRegistry(t)
	keys.Add("acme", list...)
	return sitetest.WithKeys(keys)
}

// The form of an override begins with the limits that it replaces, each with its meaning.
func TestEditForm(t *testing.T) {
	s := sitetest.New(
		t,
		withLimits(t, sitetest.Per(100, 10*time.Second), sitetest.Limit("1,500 per 90 minutes, counter"),
			sitetest.Limit("7 per hour, shadow"), sitetest.Limit("900 per hour, each group")),
	).Login()
	page := s.Get(limitsPath).Wants(t, http.StatusOK, `name="version" value="`+s.Keys.Named("{acme#}")+`"`,
		"Exact: at most 100 in any 10 seconds.", "about 1,500 in any 90 minutes")
	if got := sitetest.FormIn(page.Body).Get("limits"); got !=
		"100 per 10 seconds\n1,500 per 90 minutes, counter" {
		t.Errorf("the form begins with %q, want the limits that an override replaces", got)
	}
}

// An edit is saved, and the key's page shows the change once.
func TestSaveOverride(t *testing.T) {
	s := sitetest.New(t).Login()
	got := s.Post(limitsPath,
		sitetest.LimitsForm("{acme#}", "1,000 per 10 seconds", " 2,000,000  per day, counter\r\n"))
	got.Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys/{acme}" {
		t.Errorf("the save redirects to %q, want /keys/{acme}", to)
	}
	if got := policydoc.LimitsText(s.Keys.Key("acme").Override.Limits); got !=
		"1,000 per 10 seconds; 2,000,000 per day, counter" {
		t.Errorf("saved %s", got)
	}
	const flash = "Saved: 10 per 10 seconds → 1,000 per 10 seconds; 2,000,000 per day, counter. Effective " +
		"immediately."
	if refresh := s.Refresh("/keys/{acme}"); strings.Contains(refresh.Body, flash) {
		t.Error("a live refresh has the message")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, flash)
	if again := s.Get("/keys/{acme}"); strings.Contains(again.Body, flash) {
		t.Error("the message is shown twice")
	}
}

func TestSaveWithoutChange(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(10, 10*time.Second))
	s.Post(
		limitsPath,
		sitetest.LimitsForm("{acme#}", "10 per 10000 milliseconds",
			""),
	).Wants(t, http.StatusSeeOther)
	if s.Keys.Written() != 0 {
		t.Error("an edit that changes nothing was written")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed")
}

// An invalid limit gets one error at its line, and all typed text is kept.
func TestInvalidLimits(t *testing.T) {
	for text, message := range map[string]string{
		"ten per 10 seconds":      "is not a limit",
		"0 per second":            "Requests is 0: must be 1 to 1,000,000,000.",
		"5 per minute, each ip":   "Each ip: write each address.",
		"<script>":                "is not a limit",
		strings.Repeat("9", 9000): "Use at most 8,000 characters.",
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			s := sitetest.New(t).Login()
			got := s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "77 per 7 minutes, counter", text))
			got.Wants(t, http.StatusUnprocessableEntity, `limits-lines"`, html.EscapeString(message),
				"Not saved. Fix ", "about 77 in any 7 minutes")
			if typed := sitetest.FormIn(got.Body).Get("limits"); len(text) < 100 &&
				typed != "77 per 7 minutes, counter\n"+text {
				t.Errorf("the form has %q", typed)
			}
			if strings.Count(got.Body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked as invalid too")
			}
			if strings.Contains(got.Body, "<script>") || len(got.Body) > 60_000 {
				t.Error("the typed text is not escaped, or the page is not bounded")
			}
			if s.Keys.Written() != 0 {
				t.Error("the form was written")
			}
		})
	}
}

// An override without limits lifts the plan's.
func TestNoLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", " ")).Wants(t, http.StatusSeeOther)
	if o := s.Keys.Key("acme").Override; o == nil || len(o.Limits) != 0 {
		t.Errorf("got the override %+v, want one without limits", o)
	}
}

// The form names the limit that denied last, and says whether an override reaches it.
func TestFormNamesTheLastDenial(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Limits = []limits.Limit{sitetest.Limit("5 per hour, each address")}
	})
	for _, c := range [][2]string{
		{"10 per 10 seconds", "Denied last by 10 per 10 seconds. An override reaches it."},
		{"5 per hour each address",
			"Denied last by 5 per hour each address. No override reaches it: it is each address."},
		{"7 per day", "Denied last by 7 per day, which is no longer in force."},
	} {
		denied(s, "acme", c[0], "", time.Now(), 1)
		s.Get(limitsPath).Wants(t, http.StatusOK, c[1])
	}
}

// An error that only the store finds is shown at its line, also after blank ones.
func TestErrorOfStore(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].Limits = []limits.Limit{sitetest.Per(1000, time.Minute)}
		set.Routes = []limits.Route{sitetest.Route("export", "600", "POST /export")}
	})
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "", "501 per hour")).Wants(t,
		http.StatusUnprocessableEntity,
		`<dd class="wrong">`, "501", "export")
}

// An edit of a key that somebody else changed meanwhile writes nothing and shows both
// versions. Saving again overwrites the other one.
func TestConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	stale := s.Keys.Named("{acme#}")
	s.Keys.OverrideKey("acme", sitetest.Per(77, time.Hour))
	mine := "20 per 10 seconds"
	got := s.Post(limitsPath, sitetest.LimitsForm(stale, mine)).Wants(t, http.StatusConflict,
		"<bdi>test</bdi> saved first", "77 per hour", "override: 77 per hour",
		`name="version" value="`+s.Keys.Named("{acme#}")+`"`, ">20 per 10 seconds</textarea>", "Save mine over theirs",
		"Keep theirs")
	if !strings.Contains(got.Body, `href="/keys/{acme}"`) {
		t.Error("the page lacks a link that discards the edit")
	}
	if s.Keys.Written() != 0 || s.Keys.Key("acme").Override.Limits[0].Requests != 77 {
		t.Fatal("the edit overwrote the other change")
	}
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", mine)).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Saved: 77 per hour → 20 per 10 seconds")
}

// An override has at most limits.MaxPlanLimits limits; more get an error of the list.
func TestMaxLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	var rows []string
	for i := range limits.MaxPlanLimits + 1 {
		rows = append(rows, fmt.Sprintf("%d per %[1]d hours", i+1))
	}
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", rows...)).Wants(t, http.StatusUnprocessableEntity,
		"at most 32")
}

// A form without a valid version is refused, and so is one of an unknown key.
func TestForeignForm(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, version := range []string{"", "x", "1.5", "99999999999999999999"} {
		form := sitetest.LimitsForm("{acme#}", "20 per hour")
		form.Set("version", version)
		s.Post(limitsPath, form).Wants(t, http.StatusBadRequest)
	}
	s.Post("/keys/ZZZZZZZZZZZZ/limits", sitetest.LimitsForm("1")).Wants(t, http.StatusNotFound)
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}

// The limits of a revoked key cannot be edited.
func TestLimitsOfRevokedKey(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	s.Get(limitsPath).Wants(t, http.StatusConflict, "This key is revoked")
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "20 per hour")).Wants(t, http.StatusConflict,
		"This key is revoked")
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}
