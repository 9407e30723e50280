package dashboard

import (
	"net/http"
	"testing"

	"tidegate/functions/admin/dashboard/form"
)

// A rule's form reads and shows the most that a settlement charges to shared limits; the
// page of policies says it, and says what holds without one.
func TestSettleMaxInTheForm(t *testing.T) {
	s := newSite(t).login()
	rule := func(version int64, most string) map[string][]string {
		return with(
			with(ruleOf(version, "", "chat", "POST", "/chat"), "cost", "4"), "settle", form.Checked, "settleMax", most,
		)
	}
	for most, want := range map[string]string{
		"3": "It is 3: must be 4, what a call costs, to 1000000000", "0": "Must be 1 to 1,000,000,000", "many": "Type a whole number",
		"1,000,000,001": "Must be 1 to 1,000,000,000",
	} {
		s.post("/policies/rules", rule(1, most)).wants(t, http.StatusUnprocessableEntity, `id="settleMax-error"`, want)
	}
	s.post("/policies/rules", rule(1, "5,000")).wants(t, http.StatusSeeOther)
	if r := s.set().Routes[0]; r.SettleMax != 5000 || !r.Settle {
		t.Errorf("saved %+v", r)
	}
	s.get("/policies").wants(t, http.StatusOK, "4, settled after, at most 5,000 on shared limits")
	s.get("/policies/rules/edit?rule=chat").wants(t, http.StatusOK, `name="settleMax" value="5,000"`)
	blank := with(rule(2, " "), "rule", "chat")
	s.post("/policies/rules", blank).wants(t, http.StatusSeeOther)
	if r := s.set().Routes[0]; r.SettleMax != 0 {
		t.Errorf("saved %+v", r)
	}
	s.get("/policies").wants(t, http.StatusOK, "4, settled after, at most 10 times the cost on shared limits")
}
