package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"tidegate/internal/policy"
)

// A bulk change is one change of the audit, which can be undone.
func TestBulkUndo(t *testing.T) {
	s := newService(t)
	a, b := s.create("a"), s.create("b")
	r := s.post("/bulk", map[string]any{"do": "tag", "tags": []string{"vip"}, "filter": map[string]any{},
		"reason": "x"}).wants(http.StatusOK, `"done":2`)
	change, _ := r.at("change").(float64)
	at := fmt.Sprintf("/audit/%d", int(change))
	s.get(at).wants(http.StatusOK, a.ID, b.ID, `"items":2`, `"action":"key.edit"`)
	s.post(at+"/undo", map[string]any{"reason": "by mistake"}).wants(http.StatusNoContent)
	if k, err := s.keys.Get(t.Context(), a.ID); err != nil || len(k.Tags) > 0 {
		t.Errorf("after the undo: got %+v, %v, want no tags", k, err)
	}
}

// Keys that need no change are skipped.
func TestBulk(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	var ids []string
	for i := range 60 {
		ids = append(ids, s.create(fmt.Sprintf("job-%03d", i)).ID)
	}
	other := s.create("other")
	run := func(body map[string]any) (done, skipped float64) {
		body["reason"] = "test"
		for steps := 0; ; steps++ {
			r := s.post("/bulk", body).wants(http.StatusOK, `"failed":0`)
			done, skipped = done+r.at("done").(float64), skipped+r.at("skipped").(float64)
			next := r.stringAt("next")
			if next == "" || steps > 50 {
				return done, skipped
			}
			body["after"] = next
		}
	}
	all := map[string]any{"prefix": "job-"}
	if done, skipped := run(map[string]any{"do": "plan", "plan": "pro", "filter": all}); done != 60 ||
		skipped != 0 {
		t.Errorf("plan: got %v done, %v skipped, want 60, 0", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "plan", "plan": "pro", "filter": all}); done != 0 ||
		skipped != 60 {
		t.Errorf("plan again: got %v done, %v skipped, want 0, 60", done, skipped)
	}
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "test"}
	for _, want := range []float64{3, 0} { // the second time, no key needs a change
		if done, _ := run(map[string]any{"do": "override", "override": override, "ids": ids[:3]}); done !=
			want {
			t.Errorf("override: got %v done, want %v", done, want)
		}
	}
	if done, _ := run(map[string]any{"do": "end",
		"filter": map[string]any{"state": "overridden"}}); done != 3 {
		t.Errorf("end: got %v done, want 3", done)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for _, body := range []map[string]any{
		{"do": "ban", "until": until}, {"do": "tag", "tags": []string{"vip"}},
		{"do": "group", "group": "big"}, {"do": "expiry", "until": until},
	} {
		body["ids"] = ids[:50]
		if done, skipped := run(body); done != 50 || skipped != 0 {
			t.Errorf("%s: got %v done, %v skipped, want 50, 0", body["do"], done, skipped)
		}
	}
	if k, err := s.keys.Get(t.Context(), ids[49]); err != nil || !k.Banned.Equal(until) || k.Group != "big" ||
		!slices.Equal(k.Tags, []string{"vip"}) || !k.Expires.Equal(until) {
		t.Errorf("after four changes: got %+v, %v", k, err)
	}
	for _, body := range []map[string]any{
		{"do": "unban"}, {"do": "untag", "tags": []string{"vip"}}, {"do": "group"}, {"do": "expiry"},
	} {
		body["filter"] = all
		if done, skipped := run(body); done != 50 || skipped != 10 {
			t.Errorf("%s: got %v done, %v skipped, want 50, 10", body["do"], done, skipped)
		}
	}
	if done, _ := run(map[string]any{"do": "reset", "ids": ids[:2]}); done != 2 {
		t.Errorf("reset: got %v done, want 2", done)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "ids": append(ids[:2:2], "nobody")}); done != 2 ||
		skipped != 0 {
		t.Errorf("revoke: got %v done, %v skipped, want 2, 0", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "filter": all, "confirm": 60}); done != 58 ||
		skipped != 2 {
		t.Errorf("revoke all: got %v done, %v skipped, want 58, 2", done, skipped)
	}
	if k, err := s.keys.Get(t.Context(), other.ID); err != nil || k.Version != other.Version {
		t.Errorf("a key outside of the filter: got %+v, %v, want it unchanged", k, err)
	}
	for name, body := range map[string]string{
		"neither":     `{"do":"reset","reason":"x"}`,
		"both":        `{"do":"reset","reason":"x","ids":["a"],"filter":{}}`,
		"plan":        `{"do":"plan","reason":"x","filter":{},"plan":"nope"}`,
		"no override": `{"do":"override","reason":"x","filter":{}}`,
		"bad limits":  `{"do":"override","reason":"x","filter":{"prefix":"other"},"override":{"reason":"x","limits":[{"requests":5,"window":"400d"}]}}`,
		"no reason":   `{"do":"reset","filter":{}}`,
		"position":    `{"do":"reset","reason":"x","filter":{},"after":"!"}`,
		"no count":    `{"do":"reset","reason":"x","filter":{"prefix":"job-"}}`,
		"computed":    `{"do":"reset","reason":"x","filter":{"state":"revoked"}}`,
		"ban count":   `{"do":"ban","reason":"x","filter":{},"until":"2099-01-01T00:00:00Z"}`,
		"no end":      `{"do":"ban","reason":"x","ids":["a"]}`,
		"no tags":     `{"do":"tag","reason":"x","ids":["a"]}`,
		"bad group":   `{"do":"group","reason":"x","ids":["a"],"group":"two words"}`,
		"past expiry": `{"do":"expiry","reason":"x","ids":["a"],"until":"2001-01-01T00:00:00Z"}`,
		"other count": `{"do":"revoke","reason":"x","filter":{"prefix":"job-"},"confirm":59}`,
	} {
		if r := s.post("/bulk", []byte(body)); r.status != http.StatusUnprocessableEntity ||
			len(r.at("errors").([]any)) == 0 {
			t.Errorf("%s: got %d %s, want 422 with errors", name, r.status, r.text)
		}
	}
}
