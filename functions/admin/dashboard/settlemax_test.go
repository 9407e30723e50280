package dashboard_test

import (
	"net/http"
	"testing"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/testing/sitetest"
)

// The form of a rule edits the bound of what a settlement charges to shared limits. The
// policies page shows the bound, or the default without one.
func TestSettleMaxInForm(t *testing.T) {
	s := sitetest.New(t).Login()
	rule := func(version int64, bound string) map[string][]string {
		return sitetest.With(
			sitetest.With(ruleOf(version, "", "chat", "POST", "/chat"), "cost", "4"), "settle", form.Checked,
			"settleMax", bound,
		)
	}
	for bound, want := range map[string]string{
		"3": "It is 3: must be at least the cost, 4 to 1000000000", "0": "Must be 1 to 1,000,000,000",
		"many":          "Enter a whole number",
		"1,000,000,001": "Must be 1 to 1,000,000,000",
	} {
		s.Post("/policies/rules", rule(1, bound)).Wants(
			t, http.StatusUnprocessableEntity, `id="settleMax-error"`, want,
		)
	}
	s.Post("/policies/rules", rule(1, "5,000")).Wants(t, http.StatusSeeOther)
	if r := s.Set().Routes[0]; r.SettleMax != 5000 || !r.Settle {
		t.Errorf("saved %+v, want settled with a bound of 5000", r)
	}
	s.Get("/policies").Wants(t, http.StatusOK, "4, settled after, at most 5,000 on shared limits")
	s.Get("/policies/rules/edit?rule=chat").Wants(t, http.StatusOK, `name="settleMax" value="5,000"`)
	blank := sitetest.With(rule(2, " "), "rule", "chat")
	s.Post("/policies/rules", blank).Wants(t, http.StatusSeeOther)
	if r := s.Set().Routes[0]; r.SettleMax != 0 {
		t.Errorf("saved %+v, want no bound", r)
	}
	s.Get("/policies").Wants(t, http.StatusOK, "4, settled after, at most 10 times the cost on shared limits")
}
