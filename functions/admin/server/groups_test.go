package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// withGroup puts acme and bolt into group corp, which may make 20 calls an hour, and
// makes 3 calls with each.
func withGroup(s *sitetest.Site) {
	s.T.Helper()
	s.Keys.Save(func(set *policy.Set) {
		for i := range set.Plans {
			set.Plans[i].Limits = append(set.Plans[i].Limits, sitetest.Limit("20 per hour, each group"))
		}
	})
	checker := enforce.NewChecker(s.Keys.Client, sitetest.Pepper)
	for _, name := range []string{"acme", "bolt"} {
		s.Keys.UpdateKey(name, func(k *policy.Key) { k.Group = "corp" })
		secret := s.Keys.Secrets[name]
		for range 3 {
			call := enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret}
			c, err := checker.Check(s.T.Context(), call)
			if s.Keys.Must(err); !c.Allowed {
				s.T.Fatalf("got %+v, want an allowed call", c)
			}
		}
	}
}

// A group's page shows its keys and limits, and the pages of its keys link to it. A reset
// sets the counts of the group to zero and keeps those of its keys.
func TestGroupPages(t *testing.T) {
	s := sitetest.New(t).Login()
	withGroup(s)
	s.Get("/groups/corp").Wants(t, http.StatusOK, "Group <bdi>corp</bdi>", "{acme}", "{bolt}",
		"20 per hour", `<span class="badge free">active</span>`, "All keys of this group (2)",
		"/denials?group=corp", "Reset counts", "<b>6</b> of 20")
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, `href="/groups/corp"`)
	s.Get("/keys?q=co").Wants(t, http.StatusOK, `href="/groups/corp"`, "corp (2 keys)")
	list := s.Get("/keys?group=corp").Wants(t, http.StatusOK, "{bolt}")
	if strings.Contains(list.Body, "{core}") {
		t.Error("the list of the group has another key")
	}
	s.Get("/groups/nobody").Wants(t, http.StatusNotFound, "No such group")
	s.Get("/groups/..%2fkeys").Wants(t, http.StatusNotFound, "No such group")
	s.Get("/groups/corp/reset").Wants(t, http.StatusOK, "Reset the counts of group")
	s.Post("/groups/corp/reset", url.Values{"reason": {"new month"}, "version": {"{policy#}"}}).Wants(t,
		http.StatusSeeOther)
	s.Get("/groups/corp").Wants(t, http.StatusOK, "<b>0</b> of 20")
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "<b>3</b> of 10")
	s.Get("/audit").Wants(t, http.StatusOK, "Counts of group  <a", "new month", "corp")
}

// The override of a group is typed on its page, shown there and on the pages of its keys,
// and ended.
func TestGroupOverridePages(t *testing.T) {
	s := sitetest.New(t).Login()
	withGroup(s)
	s.Get("/groups/corp").Wants(t, http.StatusOK, "Override limits")
	const path = "/groups/corp/limits"
	page := s.Get(path).Wants(t, http.StatusOK, "Limits of the keys of group")
	typed := sitetest.LimitsForm("{policy#}", "7 per minute")
	stale := sitetest.HiddenIn(page.Body).Get("version")
	s.Keys.Save(func(set *policy.Set) {
		set.GroupOverrides = map[string]policy.Override{"corp": {Reason: "theirs"}}
	})
	s.Post(path, sitetest.With(typed, "version", stale)).Wants(t, http.StatusConflict, "saved first",
		"theirs")
	sitetest.With(typed, "version", "{policy#}", "reason", "")
	s.Post(path, typed).Wants(t, http.StatusUnprocessableEntity)
	s.Post(path, sitetest.With(typed, "reason", "a launch")).Wants(t, http.StatusSeeOther)
	undo := sitetest.UndoInPage.FindStringSubmatch(
		s.Get("/groups/corp").Wants(t, http.StatusOK, "7 per minute",
			"a launch", "End override").Body,
	)
	if undo == nil {
		t.Fatal("the message offers no undo")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "7 per minute", "for the group corp", "group override",
		"counts only")
	s.Get("/audit").Wants(t, http.StatusOK, `Limits of  <a href="/groups/corp"><bdi>group corp</bdi>`,
		"a launch")
	s.Post(undo[1], nil).Wants(t, http.StatusSeeOther)
	s.Get("/groups/corp").Wants(t, http.StatusOK, "theirs")
	s.Post("/groups/corp/end", url.Values{"reason": {"over"}, "version": {"{policy#}"}}).Wants(t,
		http.StatusSeeOther)
	if page = s.Get("/groups/corp").Wants(t, http.StatusOK); strings.Contains(page.Body, "a launch") {
		t.Error("the override is on the page after its end")
	}
	s.Post("/groups/corp/end", url.Values{}).Wants(t, http.StatusNotFound)
}

// A key's owner sees the state of the group's enforced limits, but neither the group's
// name nor its other keys.
func TestOwnKeyInGroup(t *testing.T) {
	s := sitetest.New(t)
	withGroup(s)
	got := getOwnKey(s, withKey(s.Keys.Secrets["acme"].Reveal())).Wants(t, http.StatusOK,
		`"who":"each group"`, `"used":6,"remaining":14`)
	if strings.Contains(got.Body, "bolt") || strings.Contains(got.Body, "corp") {
		t.Errorf("got %s, want neither bolt nor corp in it", got.Body)
	}
	s.Keys.Plan("free", sitetest.Limit("10 per 10 seconds"),
		sitetest.Limit("20 per hour, each group, shadow"))
	got = getOwnKey(s, withKey(s.Keys.Secrets["acme"].Reveal())).Wants(t, http.StatusOK)
	if strings.Contains(got.Body, "each group") {
		t.Errorf("got %s, want no limits in shadow", got.Body)
	}
}
