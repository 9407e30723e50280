package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

const limitsPath = "/keys/{acme}/limits"

// withLimits is the option of a registry with the key acme, whose plan has the limits.
func withLimits(t *testing.T, limits ...limiter.Limit) sitetest.Option {
	keys := sitetest.NewRegistry(t)
	keys.Add("acme", limits...)
	return sitetest.WithKeys(keys)
}

func TestEditForm(t *testing.T) {
	s := sitetest.New(
		t,
		withLimits(t, sitetest.Per(100, 10*time.Second), limiter.Limit{
			Requests: 1500, Window: 90 * time.Minute, Algorithm: limiter.Counter,
		}),
	).Login()
	s.Get(limitsPath).Wants(t, http.StatusOK,
		`name="version" value="1"`,
		`name="limits[0]" value="100 per 10 seconds"`, "Exact: at most 100 in any 10 seconds.",
		`name="limits[1]" value="1,500 per 90 minutes, counter"`, "about 1,500 in any 90 minutes",
	)
}

// An edit is saved, and the key's page shows the change once.
func TestSaveOverride(t *testing.T) {
	s := sitetest.New(t).Login()
	got := s.Post(
		limitsPath,
		sitetest.LimitsForm(1, "1,000 per 10 seconds", " 2 000 000  per day, counter"),
	)
	got.Wants(t, http.StatusSeeOther)
	if to := got.Header.Get("Location"); to != "/keys/{acme}" {
		t.Errorf("the save redirects to %q, want /keys/{acme}", to)
	}
	want := []limiter.Limit{
		sitetest.Per(1000, 10*time.Second),
		{Requests: 2_000_000, Window: 24 * time.Hour, Algorithm: limiter.Counter},
	}
	if diff := cmp.Diff(want, s.Keys.Key("acme").Override.Limits); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
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
		sitetest.LimitsForm(2, "10 per 10000 milliseconds",
			""),
	).Wants(t, http.StatusSeeOther)
	if s.Keys.Written() != 0 {
		t.Error("an edit that changes nothing was written")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Nothing changed")
}

// An invalid limit gets one error, and all typed text is kept.
func TestInvalidLimits(t *testing.T) {
	for text, message := range map[string]string{
		"ten per 10 seconds":      "is not a limit",
		"0 per second":            "The number of calls is 0: must be 1 to 1000000000.",
		"<script>":                "is not a limit",
		strings.Repeat("9", 5000): "Use at most 200 characters.",
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			s := sitetest.New(t).Login()
			got := s.Post(limitsPath, sitetest.LimitsForm(1, "77 per 7 minutes, counter", text))
			got.Wants(t, http.StatusUnprocessableEntity,
				`aria-describedby="limits-1-error"`, `<p class="wrong" id="limits-1-error">`,
				html.EscapeString(message), "Not saved. Fix 1 field.",
				`name="limits[0]" value="77 per 7 minutes, counter"`)
			if len(text) < 100 && !strings.Contains(got.Body, `value="`+html.EscapeString(text)+`"`) {
				t.Errorf("the form lacks the typed %q", text)
			}
			if strings.Count(got.Body, `class="wrong"`) != 1 ||
				strings.Count(got.Body, `aria-invalid="true"`) != 1 {
				t.Error("other fields are marked as invalid too")
			}
			if strings.Contains(got.Body, "<script>") || len(got.Body) > 30_000 {
				t.Error("the typed text is not escaped, or the page is not bounded")
			}
			if s.Keys.Written() != 0 {
				t.Error("the form was written")
			}
		})
	}
}

// An override without limits lifts the plan's, whether its form has no row or a blank one.
func TestNoLimits(t *testing.T) {
	for _, form := range []url.Values{sitetest.LimitsForm(1), sitetest.LimitsForm(1, "")} {
		s := sitetest.New(t).Login()
		s.Post(limitsPath, form).Wants(t, http.StatusSeeOther)
		if o := s.Keys.Key("acme").Override; o == nil || len(o.Limits) != 0 {
			t.Errorf("%v: got the override %+v, want one without limits", form, o)
		}
	}
}

// An error that only the store finds is shown at its field, also after blank rows.
func TestErrorOfStore(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Save(func(set *policy.Set) {
		set.Plans[0].Limits = []limiter.Limit{sitetest.Per(1000, time.Minute)}
		set.Routes = []policy.Route{{Name: "export", Cost: 600}}
	})
	s.Post(
		limitsPath,
		sitetest.LimitsForm(1, "", "501 per hour"),
	).
		Wants(t, http.StatusUnprocessableEntity,
			`<p class="wrong" id="limits-1-error">The number of calls is 501: a call of route &#34;export&#34; costs 600 and could never pass.</p>`)
}

// An edit of a key that somebody else changed meanwhile writes nothing and shows both
// versions. Saving again overwrites the other one.
func TestConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(77, time.Hour))
	mine := "20 per 10 seconds"
	got := s.Post(limitsPath, sitetest.LimitsForm(1, mine)).Wants(t, http.StatusConflict,
		"<bdi>test</bdi> saved first", "<li><bdi>77 per hour</bdi></li>",
		"<li><bdi>20 per 10 seconds</bdi></li>",
		`name="version" value="2"`, `name="limits[0]" value="20 per 10 seconds"`, "Overwrite with my changes",
		"Discard my changes")
	if !strings.Contains(got.Body, `href="/keys/{acme}"`) {
		t.Error("the page lacks a link that discards the edit")
	}
	if s.Keys.Written() != 0 || s.Keys.Key("acme").Override.Limits[0].Requests != 77 {
		t.Fatal("the edit overwrote the other change")
	}
	s.Post(limitsPath, sitetest.LimitsForm(2, mine)).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Saved: 77 per hour → 20 per 10 seconds")
}

// Without JavaScript, a button adds a limit without saving, and keeps the typed text.
func TestRowsWithoutScript(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.LimitsForm(1, "ten per second", "5 per hour, counter")
	form.Set("action", "add:limits")
	got := s.Post(limitsPath, form).Wants(
		t, http.StatusOK, `value="ten per second"`, `name="limits[1]" value="5 per hour, counter"`,
		`name="limits[2]" value=""`,
	)
	if strings.Contains(got.Body, `class="wrong"`) {
		t.Error("adding a limit shows errors of the others")
	}
	if s.Keys.Written() != 0 {
		t.Error("adding a limit wrote something")
	}
}

// The form offers at most limiter.MaxLimits limits, and more are refused.
func TestMaxLimits(t *testing.T) {
	s := sitetest.New(t).Login()
	var rows []string
	for i := range limiter.MaxLimits {
		rows = append(rows, fmt.Sprintf("%d per %[1]d hours", i+1))
	}
	form := sitetest.LimitsForm(1, rows...)
	form.Set("action", "add:limits")
	got := s.Post(limitsPath, form).Wants(t, http.StatusOK, `name="limits[7]" value="8 per 8 hours"`)
	if strings.Contains(got.Body, "Add a limit") || strings.Contains(got.Body, "limits[8]") {
		t.Error("the form offers a ninth limit")
	}
	s.PostAnyway(limitsPath, sitetest.LimitsForm(1, rows...)).Wants(t, http.StatusSeeOther)
	s.Post(
		limitsPath, sitetest.LimitsForm(2, append(rows, "9 per 9 hours")...),
	).Wants(t, http.StatusBadRequest)
}

// A form without a valid version is refused, and so is one of an unknown key.
func TestForeignForm(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, version := range []string{"", "x", "1.5", "99999999999999999999"} {
		form := sitetest.LimitsForm(1, "20 per hour")
		form.Set("version", version)
		s.Post(limitsPath, form).Wants(t, http.StatusBadRequest)
	}
	s.Post("/keys/ZZZZZZZZZZZZ/limits", sitetest.LimitsForm(1)).Wants(t, http.StatusNotFound)
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}

// The limits of a revoked key cannot be edited.
func TestLimitsOfRevokedKey(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	s.Get(limitsPath).Wants(t, http.StatusConflict, "This key is revoked")
	s.Post(limitsPath, sitetest.LimitsForm(2, "20 per hour")).Wants(
		t, http.StatusConflict, "This key is revoked",
	)
	if s.Keys.Written() != 0 {
		t.Error("the form was written")
	}
}
