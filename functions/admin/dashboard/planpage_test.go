package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// withShadow is a plan's list of limits with one in shadow.
const withShadow = "10 per minute\n3 per minute, shadow"

// A plan's page tells of its limits in shadow from the first whole minute after the edit of
// them, so that it counts no call before them.
func TestShadowOfPlan(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Server.SetTime(time.Now())
	call := records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Cost: 1, Plan: "free",
		Shadow: "3 per minute", Time: time.Now()}
	s.Keys.Record(call) // by an equal limit before the edit
	form := planOf("{policy#}", "free", "10")
	form.Set("limits", withShadow)
	s.Post("/policies/plans/1/edit", form).Wants(t, http.StatusSeeOther)
	after := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	s.Get("/").Wants(t, http.StatusOK, "In shadow")
	s.Get("/policies/plans/1").Wants(t, http.StatusOK, "Counted from "+after.Format(time.DateTime)+" UTC on.")
	s.Post("/policies/plans/1/edit", sitetest.With(form, "action", "preview", "reason", "")).
		Wants(t, http.StatusOK, "Limits in shadow: Counted from ")
}

// A plan's page has the use of each limit over its keys, those that used most first, and
// their calls.
func TestPlanPage(t *testing.T) {
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("key-%02d", i+1)
	}
	s := sitetest.New(t).Login()
	s.Keys.Plan("hour", sitetest.Per(100, time.Hour))
	s.Keys.CreateNamed("hour", names...)
	for i, name := range names {
		s.Keys.Use(name, int64(5*(i+1))) // 5, 10, … 100
		s.Keys.Called(name, time.Now().Add(-time.Minute), i, 1)
	}
	plan, _ := s.Set().Plan("hour")
	s.Keys.OverrideKey("key-01", sitetest.Per(4, time.Hour)) // 5 used: owes one
	body := s.Get(fmt.Sprint("/policies/plans/", plan.Number)).Wants(t, http.StatusOK,
		"<h1>Plan <bdi>hour</bdi></h1>", "/edit").Body
	words := sitetest.InWords(body)
	for _, text := range []string{
		"Keys 20", "At a limit 2", "Near a limit 4", "Calls, last hour 210", "Denied, last hour 20 10 %",
		"Refused, last hour 0",
		"100 per hour Try in shadow 55 (55 %) 100 (100 %) 100 (100 %)", // of the 19 keys without an override
		"4 per hour each caller", "key-20", "All keys of this plan (20)",
	} {
		if !strings.Contains(words, text) {
			t.Errorf("want %q in %s", text, words)
		}
	}
	_, rest, _ := strings.Cut(body, "Used most")
	order := []string{"key-01<", "key-20<", "key-19<", "key-18<", "key-02<"}
	for i := range order[1:] {
		if strings.Index(rest, order[i]) > strings.Index(rest, order[i+1]) {
			t.Errorf("%s is not before %s", order[i], order[i+1])
		}
	}
}

// The preview of a plan shows the difference, and how many keys have the plan. It writes
// nothing.
func TestPlanPreview(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Server.SetTime(time.Now())
	preview := func(more ...string) url.Values {
		return sitetest.With(planOf("{policy#}", "free", "5"), append(more, "action", "preview", "reason",
			"")...)
	}
	plain := s.Post("/policies/plans/1/edit", preview()).Wants(t, http.StatusOK, "plan free: limits",
		"1 change for 2 keys.")
	if strings.Contains(plain.Body, "would have denied") {
		t.Error("a plan without limits in shadow would have denied calls")
	}
	written := s.Keys.Written()
	s.Post("/policies/plans/1/edit", preview("limits", withShadow)).Wants(t, http.StatusOK, "3 per minute")
	if s.Keys.Written() != written {
		t.Error("a preview wrote something")
	}
}

// The preview of a threshold says how many keys are above it now, since no call reports
// these before their use falls.
func TestThresholdBelowUse(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("hour", sitetest.Per(100, time.Hour))
	s.Keys.CreateNamed("hour", "low", "high", "full")
	s.Keys.Use("low", 79)
	s.Keys.Use("high", 80)
	s.Keys.Use("full", 100)
	preview := func(limit string) sitetest.Reply {
		form := sitetest.With(planOf("{policy#}", "hour", "5"), "limits", limit, "action", "preview",
			"reason", "")
		return s.Post("/policies/plans/2/edit", form).Wants(t, http.StatusOK)
	}
	preview("100 per hour, notify at 80/100 %").Wants(t, http.StatusOK,
		"2 keys at 80 % of 100 per hour or above now: reported when reached again.",
		"1 key at 100 % of 100 per hour or above now")
	for _, limit := range []string{"100 per hour", "100 per day, notify at 80 %",
		"1000 per hour, notify at 80 %"} {
		if strings.Contains(preview(limit).Body, "or above now") {
			t.Errorf("%s: keys are above a threshold", limit)
		}
	}
}
