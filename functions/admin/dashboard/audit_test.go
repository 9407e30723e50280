package dashboard

import (
	"encoding/csv"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// revertOf returns the way to revert the first entry that a page shows.
func (s *site) revertOf(path string) string {
	s.t.Helper()
	m := regexp.MustCompile(`href="(/audit/[^"]+/revert)"`).FindStringSubmatch(s.get(path).wants(s.t, http.StatusOK).body)
	if m == nil {
		s.t.Fatalf("%s offers no revert", path)
	}
	return m[1]
}

func TestAuditPage(t *testing.T) {
	s := newSite(t).login()
	s.post(limitsPath, with(limitsOf(1, [4]string{"50", "1", "minute", "log"}), "reason", "asked for")).wants(t, http.StatusSeeOther)
	s.get("/audit").wants(t, http.StatusOK, "key.override", "<bdi>ada</bdi>", "50 per minute (asked for)", "because: <bdi>asked for</bdi>",
		"key.create", "policy.save", "10 per 10 seconds")
	for query, want := range map[string][2]string{
		"subject={bolt}":               {"key.create", "50 per minute"},
		"what=key.override":            {"50 per minute", "policy.save"},
		"by=ada":                       {"50 per minute", "key.create</code>"},
		"subject=policy":               {"policy.save", "key.create</code>"},
		"by=nobody":                    {"Nothing here", "key.create</code>"},
		"subject={acme}&what=key.over": {"asked for", "key.create</code>"},
	} {
		if body := s.get("/audit?"+query).wants(t, http.StatusOK, want[0]).body; strings.Contains(body, want[1]) {
			t.Errorf("%s shows %q", query, want[1])
		}
	}
	s.get("/audit?after=nonsense").wants(t, http.StatusBadRequest)
	rows, err := csv.NewReader(strings.NewReader(s.get("/audit.csv?what=key.override").wants(t, http.StatusOK).body)).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][3] != "ada" || rows[1][8] != "asked for" || rows[1][11] == "" {
		t.Errorf("%q, %v", rows, err)
	}
	s.get("/audit.csv?after=x").wants(t, http.StatusBadRequest)
}

// A revert shows what it changes, wants a reason, writes a new change, and refuses what
// cannot be put back.
func TestRevert(t *testing.T) {
	s := newSite(t).login()
	s.keys.override("acme", per(50, time.Minute))
	s.keys.update("acme", func(k *policy.Key) { k.Tags = []string{"later"} })
	entries := s.get("/audit?subject={acme}").wants(t, http.StatusOK).body
	all := regexp.MustCompile(`href="(/audit/[^"]+/revert)"`).FindAllStringSubmatch(entries, -1)
	if len(all) != 2 {
		t.Fatalf("%d entries can be reverted, want 2: not the creation", len(all))
	}
	override := all[1][1]
	s.get(override).wants(t, http.StatusOK, "50 per minute (test)</bdi></del>", "later</bdi></del>", `name="version" value="3"`)
	s.post(override, fields("version", "3", "reason", "")).wants(t, http.StatusUnprocessableEntity, "Say why")
	s.post(override, fields("version", "2", "reason", "mistake")).wants(t, http.StatusConflict, "nothing was written")
	s.post(override, fields("version", "3", "reason", "mistake")).wants(t, http.StatusSeeOther)
	if k := s.keys.key("acme"); k.Override != nil || len(k.Tags) != 0 || k.Version != 4 {
		t.Errorf("reverted to %+v", k)
	}
	s.get("/audit?subject={acme}").wants(t, http.StatusOK, "key.revert", "because: <bdi>mistake</bdi>")
	s.get(override).wants(t, http.StatusOK, "There is nothing to revert")

	s.get("/keys/{acme}")
	s.post("/keys/{acme}/reset", fields("version", "4")).wants(t, http.StatusSeeOther)
	for _, action := range []string{"key.create", "key.reset"} {
		page, err := s.keys.Audit().List(t.Context(), audit.Query{Subject: s.keys.ids["acme"], Action: action})
		if err != nil || len(page.Entries) == 0 {
			t.Fatal(err)
		}
		s.get("/audit/"+page.Entries[0].ID+"/revert").wants(t, http.StatusConflict, "This change cannot be reverted")
		s.post("/audit/"+page.Entries[0].ID+"/undo", nil).wants(t, http.StatusConflict)
	}
	s.post("/keys/{acme}/delete", fields("version", "5")).wants(t, http.StatusSeeOther)
	s.get(override).wants(t, http.StatusConflict, "The key was deleted since.")
	s.get("/audit/1-0-1/revert").wants(t, http.StatusNotFound)
	s.get("/audit/x/revert").wants(t, http.StatusNotFound)
}

// A plan that was deleted since comes back by a revert of the policies.
func TestRevertPolicies(t *testing.T) {
	s := newSite(t).login()
	s.keys.plan("extra", per(5, time.Minute))
	s.keys.save(func(set *policy.Set) { set.Plans = set.Plans[:1] })
	way := s.revertOf("/audit?subject=policy")
	s.get(way).wants(t, http.StatusOK, "plan extra", "5 per minute")
	s.post(way, fields("version", "3", "reason", "needed")).wants(t, http.StatusSeeOther)
	if p, known := s.set().Plan("extra"); !known || p.Limits[0] != per(5, time.Minute) {
		t.Errorf("plans %+v", s.set().Plans)
	}
}

// The check of the chains finds an entry that was altered.
func TestVerify(t *testing.T) {
	s := newSite(t).login()
	s.get("/audit/verify").wants(t, http.StatusOK, "All 4 entries are as they were written")
	stream := audit.Stream(keyspace.BucketOf(s.keys.ids["acme"]))
	entries, err := s.keys.server.Stream(stream)
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	forged := append([]string(nil), entries[0].Values...)
	for i := range forged {
		forged[i] = strings.Replace(forged[i], "acme", "acne", 1)
	}
	s.keys.server.Del(stream)
	if _, err := s.keys.server.XAdd(stream, entries[0].ID, forged); err != nil {
		t.Fatal(err)
	}
	s.get("/audit/verify").wants(t, http.StatusOK, "of 4 entries were altered", entries[0].ID)
}

// It finds a chain whose newest entries are missing.
func TestVerifyFindsWhatIsMissing(t *testing.T) {
	s := newSite(t).login()
	s.keys.server.Del(audit.Stream(keyspace.BucketOf(s.keys.ids["acme"])))
	s.get("/audit/verify").wants(t, http.StatusOK, "1 of the chains lack their newest entries or their head", ": 1 missing")
}
