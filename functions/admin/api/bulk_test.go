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
	r := s.post("/bulk/tag", map[string]any{"change": map[string]any{"tags": []string{"vip"}, "reason": "x"},
		"filter": map[string]any{}}).wants(http.StatusOK, `"done":2`)
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
	run := func(do string, change, body map[string]any) (done, skipped float64) {
		if change == nil {
			change = map[string]any{}
		}
		change["reason"] = "test"
		body["change"] = change
		for steps := 0; ; steps++ {
			r := s.post("/bulk/"+do, body).wants(http.StatusOK, `"failed":0`)
			done, skipped = done+r.at("done").(float64), skipped+r.at("skipped").(float64)
			next := r.stringAt("next")
			if next == "" || steps > 50 {
				return done, skipped
			}
			body["after"] = next
		}
	}
	all := map[string]any{"prefix": "job-"}
	done, skipped := run("plan", map[string]any{"plan": "pro"}, map[string]any{"filter": all})
	if done != 60 ||
		skipped != 0 {
		t.Errorf("plan: got %v done, %v skipped, want 60, 0", done, skipped)
	}
	done, skipped = run("plan", map[string]any{"plan": "pro"}, map[string]any{"filter": all})
	if done != 0 ||
		skipped != 60 {
		t.Errorf("plan again: got %v done, %v skipped, want 0, 60", done, skipped)
	}
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}}}
	for _, want := range []float64{3, 0} { // the second time, no key needs a change
		if done, _ := run("override", override, map[string]any{"ids": ids[:3]}); done !=
			want {
			t.Errorf("override: got %v done, want %v", done, want)
		}
	}
	if done, _ := run("end", nil,
		map[string]any{"filter": map[string]any{"state": "overridden"}}); done != 3 {
		t.Errorf("end: got %v done, want 3", done)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for do, change := range map[string]map[string]any{
		"ban": {"until": until}, "tag": {"tags": []string{"vip"}}, "group": {"group": "big"},
		"expiry": {"expires": until},
	} {
		if done, skipped := run(do, change, map[string]any{"ids": ids[:50]}); done != 50 || skipped != 0 {
			t.Errorf("%s: got %v done, %v skipped, want 50, 0", do, done, skipped)
		}
	}
	if k, err := s.keys.Get(t.Context(), ids[49]); err != nil || !k.Banned.Equal(until) || k.Group != "big" ||
		!slices.Equal(k.Tags, []string{"vip"}) || !k.Expires.Equal(until) {
		t.Errorf("after four changes: got %+v, %v", k, err)
	}
	for do, change := range map[string]map[string]any{
		"unban": nil, "untag": {"tags": []string{"vip"}}, "group": nil, "expiry": nil,
	} {
		if done, skipped := run(do, change, map[string]any{"filter": all}); done != 50 || skipped != 10 {
			t.Errorf("%s: got %v done, %v skipped, want 50, 10", do, done, skipped)
		}
	}
	if done, _ := run("reset", nil, map[string]any{"ids": ids[:2]}); done != 2 {
		t.Errorf("reset: got %v done, want 2", done)
	}
	if done, skipped := run("revoke", nil, map[string]any{"ids": append(ids[:2:2], "nobody")}); done != 2 ||
		skipped != 0 {
		t.Errorf("revoke: got %v done, %v skipped, want 2, 0", done, skipped)
	}
	if done, skipped := run("revoke", nil, map[string]any{"filter": all, "confirm": 60}); done != 58 ||
		skipped != 2 {
		t.Errorf("revoke all: got %v done, %v skipped, want 58, 2", done, skipped)
	}
	if k, err := s.keys.Get(t.Context(), other.ID); err != nil || k.Version != other.Version {
		t.Errorf("a key outside of the filter: got %+v, %v, want it unchanged", k, err)
	}
	for name, c := range map[string]struct{ do, body, at string }{
		"neither":   {"reset", `{"change":{"reason":"x"}}`, "body.ids"},
		"both":      {"reset", `{"change":{"reason":"x"},"ids":["a"],"filter":{}}`, "body.ids"},
		"plan":      {"plan", `{"change":{"reason":"x","plan":"nope"},"filter":{}}`, "body.change.plan"},
		"no change": {"override", `{"filter":{}}`, "body"},
		"bad limits": {"override",
			`{"filter":{"prefix":"other"},"change":{"reason":"x","limits":[{"requests":5,"window":"400d"}]}}`,
			"body.change.limits[0].window"},
		"foreign": {"tag", `{"change":{"reason":"x","tags":["a"],"plan":"pro"},"ids":["a"]}`,
			"body.change.plan"},
		"no reason": {"reset", `{"change":{},"filter":{"prefix":"other"},"confirm":1}`, "body.change.reason"},
		"position":  {"reset", `{"change":{"reason":"x"},"filter":{},"after":"!"}`, "body.after"},
		"no count":  {"reset", `{"change":{"reason":"x"},"filter":{"prefix":"job-"}}`, "body.confirm"},
		"computed":  {"reset", `{"change":{"reason":"x"},"filter":{"state":"revoked"}}`, "body.confirm"},
		"ban count": {"ban", `{"change":{"reason":"x","until":"2099-01-01T00:00:00Z"},"filter":{}}`,
			"body.confirm"},
		"no end":    {"ban", `{"change":{"reason":"x"},"ids":["a"]}`, "body.change"},
		"no tags":   {"tag", `{"change":{"reason":"x"},"ids":["a"]}`, "body.change"},
		"bad group": {"group", `{"change":{"reason":"x","group":"two words"},"ids":["a"]}`, "body.change.group"},
		"past expiry": {"expiry", `{"change":{"reason":"x","expires":"2001-01-01T00:00:00Z"},"ids":["a"]}`,
			"body.change.expires"},
		"other count": {"revoke", `{"change":{"reason":"x"},"filter":{"prefix":"job-"},"confirm":59}`,
			"body.confirm"},
	} {
		t.Run(name, func(*testing.T) {
			s.post("/bulk/"+c.do, []byte(c.body)).wants(http.StatusUnprocessableEntity, `"`+c.at+`"`)
		})
	}
}
