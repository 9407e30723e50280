package dashboard_test

import (
	"encoding/csv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/sitetest"
)

// revertLink returns the address that reverts the first revertible entry on a page.
func revertLink(s *sitetest.Site, path string) string {
	s.T.Helper()
	m := regexp.MustCompile(`href="(/audit/[^"]+/revert)"`).FindStringSubmatch(
		s.Get(path).Wants(s.T, http.StatusOK).Body,
	)
	if m == nil {
		s.T.Fatalf("%s has no link that reverts an entry", path)
	}
	return m[1]
}

func TestAuditPage(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post(
		limitsPath,
		sitetest.With(sitetest.LimitsForm(1, "50 per minute"), "reason", "asked for"),
	).Wants(t, http.StatusSeeOther)
	s.Get("/audit").Wants(t, http.StatusOK, "key.override", "<bdi>ada</bdi>", "50 per minute (asked for)",
		"Reason: <bdi>asked for</bdi>",
		"key.create", "policy.save", "10 per 10 seconds")
	for query, want := range map[string][2]string{
		"subject={bolt}":               {"key.create", "50 per minute"},
		"what=key.override":            {"50 per minute", "policy.save"},
		"by=ada":                       {"50 per minute", "key.create</code>"},
		"subject=policy":               {"policy.save", "key.create</code>"},
		"by=nobody":                    {"No changes found", "key.create</code>"},
		"subject={acme}&what=key.over": {"asked for", "key.create</code>"},
	} {
		if body := s.Get("/audit?"+query).Wants(t, http.StatusOK,
			want[0]).Body; strings.Contains(body, want[1]) {
			t.Errorf("%s shows %q, which its filter excludes", query, want[1])
		}
	}
	s.Get("/audit?after=nonsense").Wants(t, http.StatusBadRequest)
	rows, err := csv.NewReader(
		strings.NewReader(s.Get("/audit.csv?what=key.override").Wants(t, http.StatusOK).Body),
	).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][3] != "ada" || rows[1][8] != "asked for" || rows[1][11] == "" {
		t.Errorf("got rows %q, %v, want a header and the override by ada", rows, err)
	}
	s.Get("/audit.csv?after=x").Wants(t, http.StatusBadRequest)
}

// A revert shows its changes, requires a reason and writes a new entry. Entries that
// cannot be reverted are refused.
func TestRevert(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(50, time.Minute))
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Tags = []string{"later"} })
	entries := s.Get("/audit?subject={acme}").Wants(t, http.StatusOK).Body
	all := regexp.MustCompile(`href="(/audit/[^"]+/revert)"`).FindAllStringSubmatch(entries, -1)
	if len(all) != 2 {
		t.Fatalf("%d entries can be reverted, want 2: a creation cannot", len(all))
	}
	override := all[1][1]
	s.Get(override).Wants(
		t, http.StatusOK, "50 per minute (test)</bdi></del>", "later</bdi></del>", `name="version" value="3"`,
	)
	s.Post(override, fields("version", "3", "reason", "")).Wants(t, http.StatusUnprocessableEntity,
		"Reason is required.")
	s.Post(override, fields("version", "2", "reason", "mistake")).Wants(
		t, http.StatusConflict, "Nothing was saved",
	)
	s.Post(override, fields("version", "3", "reason", "mistake")).Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); k.Override != nil || len(k.Tags) != 0 || k.Version != 4 {
		t.Errorf("reverted to %+v, want no override, no tags and version 4", k)
	}
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "key.revert", "Reason: <bdi>mistake</bdi>")
	s.Get(override).Wants(t, http.StatusOK, "Nothing to revert.")

	s.Get("/keys/{acme}")
	s.Post("/keys/{acme}/reset", fields("version", "4")).Wants(t, http.StatusSeeOther)
	for _, action := range []string{"key.create", "key.reset"} {
		page, err := s.Keys.Audit().List(t.Context(),
			audit.Query{Subject: s.Keys.IDs["acme"], Action: action})
		if err != nil || len(page.Entries) == 0 {
			t.Fatal(err)
		}
		s.Get("/audit/"+page.Entries[0].ID+"/revert").Wants(
			t, http.StatusConflict, "Cannot revert this change",
		)
		s.Post("/audit/"+page.Entries[0].ID+"/undo", nil).Wants(t, http.StatusConflict)
	}
	s.Post("/keys/{acme}/delete", fields("version", "5")).Wants(t, http.StatusSeeOther)
	s.Get(override).Wants(t, http.StatusConflict, "The key was deleted since.")
	s.Get("/audit/1-0-1/revert").Wants(t, http.StatusNotFound)
	s.Get("/audit/x/revert").Wants(t, http.StatusNotFound)
}

// A revert of the policies restores a plan that was deleted.
func TestRevertPolicies(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("extra", sitetest.Per(5, time.Minute))
	s.Keys.Save(func(set *policy.Set) { set.Plans = set.Plans[:1] })
	address := revertLink(s, "/audit?subject=policy")
	s.Get(address).Wants(t, http.StatusOK, "plan extra", "5 per minute")
	s.Post(address, fields("version", "3", "reason", "needed")).Wants(t, http.StatusSeeOther)
	if p, known := s.Set().Plan("extra"); !known || p.Limits[0] != sitetest.Per(5, time.Minute) {
		t.Errorf("got plans %+v, want the plan extra with 5 per minute", s.Set().Plans)
	}
}

// rewriteChain replaces the entries of the audit chain of the key acme by those that
// change returns.
func rewriteChain(s *sitetest.Site, change func([]miniredis.StreamEntry) []miniredis.StreamEntry) {
	s.T.Helper()
	stream := audit.Stream(keyspace.BucketOf(s.Keys.IDs["acme"]))
	entries, err := s.Keys.Server.Stream(stream)
	s.Keys.Must(err)
	s.Keys.Server.Del(stream)
	for _, e := range change(slices.Clone(entries)) {
		_, err := s.Keys.Server.XAdd(stream, e.ID, e.Values)
		s.Keys.Must(err)
	}
}

// The integrity check finds an altered entry.
func TestVerifyFindsAlteredEntry(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Get("/audit/verify").Wants(t, http.StatusOK, "All 4 entries are intact and in order.")
	var forged string
	rewriteChain(s, func(entries []miniredis.StreamEntry) []miniredis.StreamEntry {
		newest := &entries[len(entries)-1]
		forged, newest.Values = newest.ID, slices.Clone(newest.Values)
		for i, text := range newest.Values {
			newest.Values[i] = strings.Replace(text, `"t":"2`, `"t":"1`, 1)
		}
		return entries
	})
	s.Get("/audit/verify").Wants(t, http.StatusOK, "1 of 4 entries were altered", forged)
}

// The integrity check finds a chain whose newest entry is missing.
func TestVerifyFindsMissingEntry(t *testing.T) {
	s := sitetest.New(t).Login()
	rewriteChain(s, func(entries []miniredis.StreamEntry) []miniredis.StreamEntry {
		return entries[:len(entries)-1]
	})
	s.Get("/audit/verify").Wants(t, http.StatusOK, "1 audit chain is incomplete", ": 1 missing")
}
