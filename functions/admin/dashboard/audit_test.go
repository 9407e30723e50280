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

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// The page, its filters and the export have the changes.
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
		"subject={bolt}":                 {"</a>  created", "50 per minute"},
		"action=key.override":            {"50 per minute", "Plan free"},
		"by=ada":                         {"50 per minute", "</a>  created"},
		"subject=policy":                 {"Plan free", "bolt</bdi>"},
		"by=nobody":                      {"No changes found", "</a>  created"},
		"subject={acme}&action=key.over": {"asked for", "</a>  created"},
	} {
		if body := s.Get("/audit?"+query).Wants(t, http.StatusOK,
			want[0]).Body; strings.Contains(body, want[1]) {
			t.Errorf("%s shows %q, which its filter excludes", query, want[1])
		}
	}
	s.Get("/audit?after=nonsense").Wants(t, http.StatusBadRequest)
	s.Get("/audit?from=2026-01-02T10:00&to=2026-01-01T10:00").
		Wants(t, http.StatusUnprocessableEntity, "To: must be after from.")
	rows, err := csv.NewReader(
		strings.NewReader(s.Get("/audit.csv?action=key.override").Wants(t, http.StatusOK).Body),
	).ReadAll()
	if err != nil || len(rows) != 2 || cell(rows, "by.name") != "ada" ||
		cell(rows, "reason") != "asked for" ||
		!strings.Contains(cell(rows, "changes"), "50 per minute") {
		t.Errorf("got rows %q, %v, want a header and the override by ada", rows, err)
	}
	s.Get("/audit.csv?after=x").Wants(t, http.StatusBadRequest)
}

// cell returns a cell of the first row below a header.
func cell(rows [][]string, column string) string {
	return rows[1][slices.Index(rows[0], column)]
}

// newest returns the number of the newest change with an action.
func newest(s *sitetest.Site, action string) string {
	s.T.Helper()
	page, err := s.Keys.Audit(s.T.Context(), registry.AuditQuery{Action: action, Count: 1})
	if err != nil || len(page.Entries) == 0 {
		s.T.Fatalf("no change %s: %v", action, err)
	}
	return fmt.Sprint(page.Entries[0].Number)
}

// An undo shows what it takes back, requires a reason and makes a new change. What was
// changed since stays. Changes that cannot be undone are refused.
func TestAuditUndo(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "50 per minute")).Wants(t,
		http.StatusSeeOther)
	override := "/audit/" + newest(s, "key.override") + "/undo"
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Tags = []string{"later"} })
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, `href="`+override+`"`)
	s.Get(override).Wants(t, http.StatusOK, "50 per minute (test)</bdi></del>", "none</bdi></ins>")
	s.Post(override, fields("reason", "")).Wants(t, http.StatusUnprocessableEntity, "Enter a reason")
	s.Post(override, fields("reason", "mistake")).Wants(t, http.StatusSeeOther)
	if k := s.Keys.Key("acme"); k.Override != nil || len(k.Tags) != 1 {
		t.Errorf("after the undo: got %+v, want no override, and the later tag", k)
	}
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "Override of  <a", " undone",
		"Reason: <bdi>mistake</bdi>")
	s.Post(override, fields("reason", "again")).Wants(t, http.StatusConflict, "it was changed since")

	for _, action := range []string{"reset", "revoke"} {
		s.Post("/keys/{acme}/"+action, fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
	}
	for _, action := range []string{"key.create", "key.reset", "key.revoke"} {
		at := "/audit/" + newest(s, action) + "/undo"
		s.Get(at).Wants(t, http.StatusConflict, "Cannot undo this change")
		s.Post(at, nil).Wants(t, http.StatusConflict)
	}
	if s.Keys.Key("acme").Status != policy.Revoked {
		t.Error("an undo gave a revoked key its rights back")
	}
	s.Get("/audit/999/undo").Wants(t, http.StatusNotFound)
	s.Get("/audit/x/undo").Wants(t, http.StatusNotFound)
}

// An entry says in words what it did, and of one field which.
func TestAuditInWords(t *testing.T) {
	s := sitetest.New(t).Login()
	post := func(path string, form url.Values) { s.Post(path, form).Wants(t, http.StatusSeeOther) }
	undo := func() { s.UndoOn("/keys/{acme}").Wants(t, http.StatusSeeOther) }
	edit := func(group, tags string) {
		post("/keys/{acme}/edit", fields("version", "{acme#}", "name", "acme", "plan", "free",
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
		{func() { edit("", "a") }, "Tags of acme changed"},
		{func() { edit("big", "") }, "acme edited"},
		{func() { post("/keys/{acme}/reset", fields("version", "{acme#}")) }, "Counts of acme reset"},
		{func() { post("/keys/{acme}/revoke", fields("version", "{acme#}")) }, "acme revoked"},
		{func() { post("/keys/{acme}/unrevoke", fields("version", "{acme#}")); undo() },
			"Status of acme undone"},
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
		`(?s)data-label="Action"><span>(.*?)(<span class="soft">|</span></td>)`)
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

// A change of 30 keys is one row, with the names of the first, and one undo takes it back.
func TestAuditOfManyKeys(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.CreateKeys(30, "free")
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	form := fields("do", "tag", "of", "all", "count", "30", "tags", "vip", "reason", "wave 1")
	last, steps := s.Finish(s.Post("/keys/bulk", reviewed(s, form)))
	last.Wants(t, http.StatusOK, "Add tags to 30 keys: vip: 30 changed, 0 unchanged.")
	if steps != 0 {
		t.Errorf("got %d more steps, want one change", steps)
	}
	body := s.Get("/audit").Wants(t, http.StatusOK, "30 keys", "edited", "and 20 more",
		"Reason: <bdi>wave 1</bdi>", ": tags</dt>").Body
	if n := strings.Count(body, `data-label="Action">`); n != 4 {
		t.Errorf("got %d rows, want 4: the log's begin, a plan, the keys, and their tags", n)
	}
	undo := sitetest.UndoInPage.FindStringSubmatch(last.Body)
	if undo == nil {
		t.Fatalf("no undo is offered:\n%s", last.Body)
	}
	s.Post(undo[1], nil).Wants(t, http.StatusSeeOther)
	if k := keys.Key("k0029"); len(k.Tags) > 0 {
		t.Errorf("after the undo: got %+v, want no tags", k)
	}
}

// An undo of the policies restores a plan that was deleted.
func TestUndoOfPolicies(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("extra", sitetest.Per(5, time.Minute))
	s.Keys.Save(func(set *policy.Set) { set.Plans = set.Plans[:1] })
	at := "/audit/" + newest(s, "policy.save") + "/undo"
	s.Get(at).Wants(t, http.StatusOK, "plan extra", "5 per minute")
	s.Post(at, fields("reason", "needed")).Wants(t, http.StatusSeeOther)
	if p, known := s.Set().Plan("extra"); !known || !p.Limits[0].Equal(sitetest.Per(5, time.Minute)) {
		t.Errorf("got plans %+v, want the plan extra with 5 per minute", s.Set().Plans)
	}
}

// The audit of a plan or a route has its changes alone, by its name, and follows it through
// another name. Its page leads there. A key with the name comes first.
func TestAuditOfPart(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("gold", sitetest.Per(5, time.Minute))
	s.Keys.Save(func(set *policy.Set) { set.Routes = []limits.Route{sitetest.Route("search", "2", "/s")} })
	s.Keys.Save(func(set *policy.Set) { set.Plans[1].Name, set.Plans[1].Limits[0].Requests = "silver", 77 })
	s.Keys.Save(func(set *policy.Set) { set.Routes[0].Cost = sitetest.Route("x", "3", "/x").Cost })
	changes := func(subject string, want, without []string) {
		t.Helper()
		words := sitetest.InWords(s.Get("/audit?"+url.Values{"subject": {subject}}.Encode()).
			Wants(t, http.StatusOK).Body)
		for _, text := range want {
			if !strings.Contains(words, text) {
				t.Errorf("%s: want %q in %s", subject, text, words)
			}
		}
		for _, text := range without {
			if strings.Contains(words, text) {
				t.Errorf("%s: got %q in %s", subject, text, words)
			}
		}
	}
	changes("Silver", []string{"Changes of plan silver", "77 per minute", "5 per minute"},
		[]string{"search", "Log begun"})
	changes("plan silver", []string{"77 per minute"}, []string{"search"})
	changes("search", []string{"Changes of route search", "search"}, []string{"77 per minute"})
	s.Keys.CreateKey("silver", "free")
	changes("silver", []string{"Changes of silver"}, []string{"77 per minute"})
	changes("plan silver", []string{"77 per minute"}, nil)
	s.Get("/policies/plans/2").Wants(t, http.StatusOK, `href="/audit?subject=plan+silver"`)
}
