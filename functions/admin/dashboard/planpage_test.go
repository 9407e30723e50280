package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/usage"
)

// withShadow is a plan's list of limits with one in shadow.
const withShadow = "10 per minute\n3 per minute, shadow"

// A plan's page shows what its limits in shadow would have blocked since the last
// edit of them, by key.
func TestShadowOfPlan(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Server.SetTime(time.Now())
	record := func(name string, passed, would, denied int) {
		o := usage.Outcome{Subject: s.Keys.IDs[name], Registered: true, Time: time.Now()}
		calls := slices.Repeat([]usage.Outcome{o}, passed+would+denied)
		for i := range calls[passed:] {
			calls[passed+i].Verdict = usage.ShadowDenied
			if i >= would {
				calls[passed+i].Verdict |= usage.Denied
			}
		}
		s.Keys.Record(calls...)
	}
	s.Keys.Record(usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true,
		Time: time.Now().Add(-2 * time.Minute), Verdict: usage.ShadowDenied}) // by an earlier limit
	form := planOf(1, "free", "10")
	form.Set("limits", withShadow)
	s.Post("/policies/plans/1/edit", form).Wants(t, http.StatusSeeOther)
	record("acme", 3, 5, 0)
	record("bolt", 1, 1, 2)
	s.Get("/").Wants(t, http.StatusOK, "by limits in shadow")
	result := "would have blocked 8 of 12 calls, of 2 keys; 1 newly blocked."
	page := s.Get("/policies/plans/1").Wants(t, http.StatusOK, result, "cause=shadow")
	if got := sitetest.InWords(page.Body); !strings.Contains(got, "acme 5 8") ||
		!strings.Contains(got, "bolt 3 4") {
		t.Errorf("want acme with 5 of 8 and bolt with 3 of 4 calls in %s", got)
	}
}

// A plan's page has the use of each limit over its keys, those closest to a limit first,
// and their calls.
func TestPlanPage(t *testing.T) {
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("key-%02d", i+1)
	}
	s := sitetest.New(t, sitetest.WithKeys(sitetest.NewRegistry(t, names...))).Login()
	s.Keys.Plan("hour", sitetest.Per(100, time.Hour))
	for i, name := range names {
		s.Keys.UpdateKey(name, func(k *policy.Key) { k.Plan = "hour" })
		s.Keys.Use(name, int64(5*(i+1))) // 5, 10, … 100
		s.Keys.Called(name, time.Now().Add(-time.Minute), i, 1)
	}
	plan, _ := s.Set().Plan("hour")
	s.Keys.OverrideKey("key-01", sitetest.Per(4, time.Hour)) // 5 used: owes one
	body := s.Get(fmt.Sprint("/policies/plans/", plan.Number)).Wants(t, http.StatusOK,
		"<h1>Plan <bdi>hour</bdi></h1>", "/edit").Body
	words := sitetest.InWords(body)
	for _, text := range []string{
		"Keys 20", "At a limit 2", "Near a limit 4", "Calls, last hour 210", "Blocked, last hour 20 9 %",
		"100 per hour 55 (55 %) 100 (100 %) 100 (100 %)", // of the 19 keys without an override
		"4 per hour each caller", "key-20", "All keys of this plan (20)",
	} {
		if !strings.Contains(words, text) {
			t.Errorf("want %q in %s", text, words)
		}
	}
	_, rest, _ := strings.Cut(body, "Closest to a limit")
	order := []string{"key-01<", "key-20<", "key-19<", "key-18<", "key-02<"}
	for i := range order[1:] {
		if strings.Index(rest, order[i]) > strings.Index(rest, order[i+1]) {
			t.Errorf("%s is not before %s", order[i], order[i+1])
		}
	}
}

// The preview of a plan shows the difference, how many keys have the plan, and what its
// limits in shadow would have blocked by key. It writes nothing.
func TestPlanPreview(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Server.SetTime(time.Now())
	preview := func(version int64, more ...string) url.Values {
		return sitetest.With(planOf(version, "free", "5"), append(more, "action", "preview", "reason", "")...)
	}
	plain := s.Post("/policies/plans/1/edit", preview(1)).Wants(t, http.StatusOK, "plan free: limits",
		"1 change for 2 keys.")
	if strings.Contains(plain.Body, "would have blocked") {
		t.Error("a plan without limits in shadow would have blocked calls")
	}
	s.Post("/policies/plans/1/edit", planOf(1, "free", "10", "limits", withShadow)).
		Wants(t, http.StatusSeeOther)
	written := s.Keys.Written()
	would := usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true, Time: time.Now(),
		Verdict: usage.ShadowDenied}
	s.Keys.Record(would, would, usage.Outcome{Subject: s.Keys.IDs["acme"], Registered: true,
		Time: time.Now()})
	s.Post("/policies/plans/1/edit", preview(2, "limits", withShadow)).Wants(t, http.StatusOK,
		"would have blocked 2 of 3 calls, of 1 key; 1 newly blocked.", "acme: 2 of 3 calls")
	if s.Keys.Written() != written {
		t.Error("a preview wrote something")
	}
}
