package policies

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// A trial counts what the plan's own limits in shadow would have denied: in total of all
// callers, and of the keys that were read.
func TestTrial(t *testing.T) {
	limit, err := limits.Parse("3 per minute, shadow")
	if err != nil {
		t.Fatal(err)
	}
	shadow := func(name, plan string) records.Kind {
		return records.Kind{Cause: cause.Shadow, Limit: name, Plan: plan}
	}
	counted := func(denied int64, kinds map[records.Kind][]int64) records.Series {
		return records.Series{Points: []records.Point{{Counts: records.Counts{Allowed: 8, Denied: denied}}},
			Kinds: kinds}
	}
	key := func(name string, denied, would int64) app.PlanKey {
		return app.PlanKey{Subject: app.Subject{Key: policy.Key{ID: name, Name: name}},
			Trial: counted(denied, map[records.Kind][]int64{shadow("3 per minute", ""): {would},
				shadow("9 per hour", ""): {4}})}
	}
	use := app.PlanUse{Keys: []app.PlanKey{key("acme", 0, 5), key("bolt", 2, 1),
		key("core", 0, 0)},
		Shadow: counted(0, map[records.Kind][]int64{shadow("3 per minute", "free"): {7},
			shadow("3 per minute", "pro"): {11}, shadow("9 per hour", "free"): {13}})}
	d := &pages{Renderer: page.New("", "", slog.New(slog.DiscardHandler), nil)}
	got := d.trial(policy.Plan{Number: 1, Name: "free", Limits: []limits.Limit{limit}}, use,
		time.Now().Add(-time.Hour), false)
	if !strings.HasSuffix(got.Result, ": would have denied 7 calls, of at least 2 keys; 1 newly denied.") {
		t.Errorf("got %q", got.Result)
	}
	if len(got.Keys) != 2 || got.Keys[0].Key.Text != "acme" || got.Keys[0].Would != "5" ||
		got.Keys[0].Calls != "8" || got.Keys[1].Would != "1" || got.Keys[1].Calls != "10" {
		t.Errorf("got keys %+v, want acme with 5 of 8 calls and bolt with 1 of 10", got.Keys)
	}
}
