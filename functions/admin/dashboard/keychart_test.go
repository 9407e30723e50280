package dashboard_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/chart"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

// chartIn returns the chart of a page.
func chartIn(t *testing.T, body string) (data chart.Data) {
	t.Helper()
	found := regexp.MustCompile(`data-chart="([^"]*)"`).FindStringSubmatch(body)
	if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// A key's chart splits denied calls by the limit, has a line of calls that limits in shadow
// would have denied, and marks changes of the key and of its plan with links to the audit.
func TestKeyChart(t *testing.T) {
	s := sitetest.New(t).Login()
	now := time.Now()
	s.Keys.Server.SetTime(now)
	s.Keys.Plan("other", sitetest.Per(5, time.Hour))
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Group = "ours" })
	s.Keys.UpdateKey("bolt", func(k *policy.Key) { k.Group = "others" })
	s.Keys.Save(func(set *policy.Set) { set.Plans[0].Limits[0].Requests = 12 })
	for _, group := range []string{"others", "ours"} {
		s.Keys.Save(func(set *policy.Set) {
			set.GroupOverrides = map[string]policy.Override{group: {
				Limits: []limits.Limit{sitetest.Per(7, time.Hour)}, Reason: "test"}}
		})
	}
	s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Tags = []string{"eu"} })
	for range 3 {
		denyAt(s, "acme", now.Add(-3*time.Minute), sampleDenial("12 per 10 seconds"))
	}
	denyAt(s, "acme", now.Add(-2*time.Minute), sampleDenial("50 per minute each address"))
	would := records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Cost: 1, Time: now.Add(-time.Minute),
		Shadow: "3 per hour"}
	s.Keys.Record(would, would)
	body := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "denied by 12 per 10 seconds",
		"denied by 50 per minute each address", "would be denied in shadow").Body
	data := chartIn(t, body)
	var sums []int64
	for _, series := range data.Series {
		sums = append(sums, chart.Total(series))
	}
	if len(sums) != 4 || sums[0] != 2 || sums[1] != 3 || sums[2] != 1 || sums[3] != 2 || data.Lines != 1 {
		t.Errorf("got %v with %d lines, want 2 allowed, 3 and 1 denied, and a line of 2", sums, data.Lines)
	}
	var marks []string
	for _, m := range data.Marks {
		if !strings.HasPrefix(m.Text, "Records begin") {
			marks = append(marks, m.Text)
		}
	}
	if got := strings.Join(marks, "; "); got !=
		"Plan free created; acme created; key.test of acme; plan free: limits changed; "+
			"group ours: override changed; tags changed" {
		t.Errorf("got marks %q, want those of the plan, of the group and of the key", got)
	}
	_, list, _ := strings.Cut(body, `<ol class="marks">`)
	links := regexp.MustCompile(`<a href="(/audit\?[^"]*)">`).FindAllStringSubmatch(list, -1)
	for i, want := range []string{"Plan", "acme", "acme", "plan free: limits", "ours", "tags"} {
		entry := s.Get(html.UnescapeString(links[i][1])).Wants(t, http.StatusOK, want).Body
		if n := strings.Count(entry, "<time"); n == 0 {
			t.Errorf("the link of mark %d leads to no entry", i+1)
		}
	}
}
