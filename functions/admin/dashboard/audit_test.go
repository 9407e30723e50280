package dashboard_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
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
		sitetest.With(sitetest.LimitsForm("{acme#}", "50 per minute"), "reason", "asked for"),
	).Wants(t, http.StatusSeeOther)
	s.Get("/audit").Wants(t, http.StatusOK, "Limits of  <a", "</a>  overridden", "<bdi>ada</bdi>",
		"50 per minute (asked for)", "Reason: <bdi>asked for</bdi>", "bolt</bdi></a>  created",
		"Plan free</bdi></a>  created",
		"10 per 10 seconds")
	for query, want := range map[string][2]string{
		"subject={bolt}":               {"</a>  created", "50 per minute"},
		"what=key.override":            {"50 per minute", "Plan free"},
		"by=ada":                       {"50 per minute", "</a>  created"},
		"subject=policy":               {"Plan free", "bolt</bdi>"},
		"by=nobody":                    {"No changes found", "</a>  created"},
		"subject={acme}&what=key.over": {"asked for", "</a>  created"},
	} {
		if body := s.Get("/audit?"+query).Wants(t, http.StatusOK,
			want[0]).Body; strings.Contains(body, want[1]) {
			t.Errorf("%s shows %q, which its filter excludes", query, want[1])
		}
	}
	s.Get("/audit?after=nonsense").Wants(t, http.StatusBadRequest)
	s.Get("/audit?from=2026-01-02T10:00&to=2026-01-01T10:00").
		Wants(t, http.StatusUnprocessableEntity, "From must be before To.")
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
	s.Post(override, fields("version", "{acme#}", "reason", "")).Wants(t, http.StatusUnprocessableEntity,
		"Reason is required.")
	s.Post(override, fields("version", "{acme#}", "reason", "mistake")).Wants(
		t, http.StatusConflict, "Nothing was saved",
	)
	s.Post(override, fields("version", "{acme#}", "reason", "mistake")).Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); k.Override != nil || len(k.Tags) != 0 || k.Version != 4 {
		t.Errorf("reverted to %+v, want no override, no tags and version 4", k)
	}
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "Changes of  <a", " undone",
		"Reason: <bdi>mistake</bdi>")
	s.Get(override).Wants(t, http.StatusOK, "Nothing to revert.")

	s.Get("/keys/{acme}")
	s.Post("/keys/{acme}/reset", fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
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
	s.Post("/keys/{acme}/delete", fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
	s.Get(override).Wants(t, http.StatusConflict, "The key was deleted since.")
	s.Get("/audit/1-0-1/revert").Wants(t, http.StatusNotFound)
	s.Get("/audit/x/revert").Wants(t, http.StatusNotFound)
}

// An entry says in words what it did, and of one field which.
func TestAuditInWords(t *testing.T) {
	s := sitetest.New(t).Login()
	post := func(path string, form url.Values) { s.Post(path, form).Wants(t, http.StatusSeeOther) }
	undo := func() { s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther) }
	edit := func(version int, group, tags string) {
		post("/keys/{acme}/edit", fields("version", fmt.Sprint(version), "name", "acme", "plan", "free",
			"lasts", "never", "group", group, "tags", tags))
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "50 per minute")) },
			"Limits of acme overridden"},
		{func() { post("/keys/{acme}/end", fields("version", "{acme#}")) }, "Override of acme ended"},
		{func() { post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "9 per minute")); undo() },
			"Override of acme undone"},
		{func() { edit(5, "", "a") }, "Tags of acme changed"},
		{func() { edit(6, "big", "") }, "acme edited"},
		{func() { post("/keys/{acme}/reset", fields("version", "{acme#}")) }, "Counts of acme reset"},
		{func() { post("/keys/{acme}/revoke", fields("version", "{acme#}")) }, "acme revoked"},
		{func() { post("/keys/{acme}/unrevoke", fields("version", "{acme#}")); undo() }, "Status of acme undone"},
		{func() { s.Keys.Plan("free", sitetest.Per(7, time.Minute)) }, "Plan free changed"},
		{func() { s.Keys.Plan("pro", sitetest.Per(9, time.Minute)) }, "Plan pro created"},
		{func() { s.Keys.Save(func(set *policy.Set) { set.Plans = set.Plans[:1] }) }, "Plan pro deleted"},
		{func() { s.Keys.Plan("eu: free", sitetest.Per(9, time.Minute)) }, "Plan eu: free created"},
		{func() { s.Keys.Plan("eu: free", sitetest.Per(8, time.Minute)) }, "Plan eu: free changed"},
		{func() { s.Keys.Save(func(set *policy.Set) { set.Plans = set.Plans[:1] }) },
			"Plan eu: free deleted"},
		{func() {
			s.Keys.Plan("free", sitetest.Per(8, time.Minute))
			s.Keys.Save(func(set *policy.Set) {
				set.Plans[0].Limits[0].Requests++
				set.TokenPlan = "free"
			})
		}, "Policies changed"},
	} {
		step.do()
		subject := "{acme}"
		if strings.HasPrefix(step.want, "P") {
			subject = "policy"
		}
		if got := sentenceIn(s.Get("/audit?subject=" + subject).Body); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

var (
	sentenceCell = regexp.MustCompile(
		`(?s)<td data-label="Action"><span>(.*?)(<span class="quiet">|</span></td>)`)
	anyTag = regexp.MustCompile(`<[^>]*>`)
)

// sentenceIn returns what the newest entry of an audit page says.
func sentenceIn(body string) string {
	found := sentenceCell.FindStringSubmatch(body)
	if found == nil {
		return ""
	}
	return strings.Join(strings.Fields(anyTag.ReplaceAllString(found[1], "")), " ")
}

// A bulk job of 60 keys is one row, which links to its 60 changes. Pages, filters and the
// export have every entry.
func TestAuditFoldsJobs(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	for i := range 60 {
		keys.CreateKey(fmt.Sprintf("k%02d", i), "free")
	}
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	form := fields("do", "tag", "of", "all", "count", "60", "tags", "vip", "reason", "wave 1")
	job := s.Post("/keys/bulk", reviewed(s, form)).Wants(t, http.StatusSeeOther).Header.Get("Location")
	id := strings.TrimPrefix(job, "/jobs/")
	keys.UpdateKey("k07", func(k *policy.Key) { k.Tags = []string{"later"} })
	all := s.Get("/audit").Wants(t, http.StatusOK, "Add tags to 60 keys: vip",
		"Finished. 60 changed, 0 unchanged.",
		`href="/audit?job=`+id+`"`, `href="`+job+`/undo"`, "key.test of  <a")
	if n := strings.Count(all.Body, `<td data-label="Action">`); n != 50 {
		t.Errorf("got %d rows, want a full page", n)
	}
	if n := strings.Count(all.Body, ">Show its changes<"); n != 1 {
		t.Errorf("the job has %d rows, want 1", n)
	}
	count := func(path string) int {
		return strings.Count(s.Get(path).Wants(t, http.StatusOK).Body, `<td data-label="Action">`)
	}
	if n, more := count("/audit?job="+id), count("/audit?what=job."); n != 50 || more != 2 {
		t.Errorf("got %d changes of the job on a page and %d entries of jobs, want 50 and 2", n, more)
	}
	rows, err := csv.NewReader(strings.NewReader(s.Get("/audit.csv").Wants(t, http.StatusOK).Body)).ReadAll()
	if err != nil || len(rows) != 1+2+60+2+60+1 {
		t.Errorf("the export has %d rows, %v, want 127: each change and a header", len(rows), err)
	}
}

// A revert of the policies restores a plan that was deleted.
func TestRevertPolicies(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("extra", sitetest.Per(5, time.Minute))
	s.Keys.Save(func(set *policy.Set) { set.Plans = set.Plans[:1] })
	address := revertLink(s, "/audit?subject=policy")
	s.Get(address).Wants(t, http.StatusOK, "plan extra", "5 per minute")
	s.Post(address, fields("version", "{acme#}", "reason", "needed")).Wants(t, http.StatusSeeOther)
	if p, known := s.Set().Plan("extra"); !known || !p.Limits[0].Equal(sitetest.Per(5, time.Minute)) {
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
