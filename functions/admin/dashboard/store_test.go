package dashboard_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// An edit of a limit applies to the next check and keeps the counts.
func TestEditAppliesToNextCheck(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Add("acme", sitetest.Per(2, time.Hour))
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	checker := enforce.NewChecker(keys.Client, sitetest.Pepper)
	check := func(want bool) {
		t.Helper()
		checked, err := checker.Check(
			t.Context(), enforce.Call{Kind: policy.APIKey, Subject: keys.IDs["acme"],
				Secret: keys.Secrets["acme"]},
			nil,
		)
		if err != nil || checked.Allowed != want {
			t.Fatalf("check: %+v, %v, want allowed %v", checked, err, want)
		}
	}
	check(true)
	check(true)
	check(false)
	s.Get("/keys").Wants(t, http.StatusOK, "blocked now", "<b>2</b> of 2")
	form := sitetest.LimitsForm(1, "3 per hour")
	s.Post("/keys/{acme}/limits", form).Wants(t, http.StatusSeeOther)
	check(true)
	check(false)
	s.Get("/keys/{acme}").Wants(
		t, http.StatusOK, "2 per hour → 3 per hour", "<b>3</b> of 3", "Override of plan acme",
	)
	s.Post("/keys/{acme}/limits", form).Wants(t, http.StatusConflict, "ada</bdi> saved first")
	check(false)
}

// Every field of a limit in the form is stored and shown again.
func TestEveryFieldIsStored(t *testing.T) {
	s := sitetest.New(t).Login()
	form := sitetest.LimitsForm(1, "1,000 per calendar month (Europe/Berlin)",
		"100 per 10 seconds, denied calls count", "5,000 per hour, 2,500 slots, notify at 80/100 %")
	s.Post("/keys/{acme}/limits", form).Wants(t, http.StatusSeeOther)
	if diff := cmp.Diff(
		[]limiter.Limit{sitetest.Monthly, sitetest.Hammered, sitetest.Coarse},
		s.Keys.Key("acme").Override.Limits,
	); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	s.Get("/keys").Wants(t, http.StatusOK, "1,000 per calendar month (Europe/Berlin)", "denied calls count")
	s.Post("/keys/{acme}/limits", sitetest.With(form, "version", "2")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(
		t, http.StatusOK,
		"Nothing changed. Limits are still 1,000 per calendar month (Europe/Berlin), fixed window;",
	)
}
