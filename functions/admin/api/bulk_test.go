package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
)

// A bulk change is a job with an id and a state. Its undo is another job, which leaves
// keys that were changed since.
func TestBulkJobAndUndo(t *testing.T) {
	s := newService(t)
	a, b := s.create("a"), s.create("b")
	r := s.post("/bulk", map[string]any{"do": "revoke", "filter": map[string]any{}, "confirm": 2,
		"reason": "x"}).
		wants(http.StatusOK, `"total":2`, `"done":2`)
	job := r.stringAt("job")
	s.get("/bulk/"+job).wants(http.StatusOK, `"do":"revoke"`, `"done":2`, `"ended":`, `"left":[]`,
		`"stopped":false`)
	s.get("/audit?action=key.&job="+job).wants(http.StatusOK, a.ID, b.ID, `"job":"`+job+`"`)
	s.post("/keys/"+b.ID+"/unrevoke", map[string]any{"reason": "mine"})
	undo := s.post("/bulk/"+job+"/undo", map[string]any{"reason": "by mistake"}).wants(http.StatusOK,
		`"do":"undo"`, `"undoes":"`+job+`"`, `"done":1`)
	s.post("/bulk/"+undo.stringAt("id"), nil).wants(http.StatusOK, `"ended":`)
	if k, err := s.keys.Get(t.Context(), a.ID); err != nil || k.Status != policy.Active {
		t.Errorf("after the undo: got %+v, %v, want an active key", k, err)
	}
	s.get("/bulk").wants(http.StatusOK, `"title":"Undo changes of 2 keys"`, `"title":"Revoke 2 keys"`, job)
	s.get("/bulk/nobody").wants(http.StatusNotFound, "No such job.")
	s.post("/bulk", map[string]any{"do": "reset", "ids": []string{a.ID}, "reason": "x", "after": job}).
		wants(http.StatusUnprocessableEntity, "body.after")
	reset := s.post("/bulk", map[string]any{"do": "reset", "ids": []string{a.ID},
		"reason": "x"}).stringAt("job")
	s.post("/bulk/"+reset+"/undo", map[string]any{"reason": "x"}).wants(http.StatusConflict)
}

// A repeated request does not continue a stopped job, unless it has resume.
func TestStoppedBulkJob(t *testing.T) {
	s := newService(t)
	a := s.create("a")
	keys := app.NewRegistry(s.keys, records.NewReader(s.client, time.Now), enforce.NewChecker(s.client,
		testPepper))
	job, err := keys.StartJob(t.Context(), nil, app.Job{KeyChange: app.KeyChange{Do: app.Revoke},
		IDs: []string{a.ID}, Total: 1},
		nil, byTest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.StopJob(t.Context(), job.ID, byTest.By); err != nil {
		t.Fatal(err)
	}
	again := map[string]any{"do": "revoke", "ids": []string{a.ID}, "reason": "x", "after": job.ID}
	for range 2 {
		s.post("/bulk/"+job.ID, nil).wants(http.StatusConflict, "The job is stopped.", job.ID+"?resume=true")
		s.post("/bulk", again).wants(http.StatusConflict, "The job is stopped.")
		s.get("/bulk/"+job.ID).wants(http.StatusOK, `"stopped":true`, `"done":0`)
	}
	s.post("/bulk/"+job.ID+"/undo", map[string]any{"reason": "x"}).wants(http.StatusConflict,
		"changed nothing that can be undone")
	s.post("/bulk/"+job.ID+"?resume=true", nil).wants(http.StatusOK, `"ended":`, `"stopped":false`, `"done":1`)
	s.post("/bulk/"+job.ID, nil).wants(http.StatusOK, `"ended":`)
}

// A repeated request continues the job. A job skips keys that need no change, and changes
// no key twice.
func TestBulk(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	var ids []string
	for i := range 230 {
		ids = append(ids, s.create(fmt.Sprintf("job-%03d", i)).ID)
	}
	other := s.create("other")
	run := func(body map[string]any) (done, skipped float64) {
		body["reason"] = "test"
		for steps := 0; ; steps++ {
			r := s.post("/bulk", body).wants(http.StatusOK, `"failed":[]`)
			done, skipped = done+r.at("done").(float64), skipped+r.at("skipped").(float64)
			next := r.stringAt("next")
			if next == "" || steps > 50 {
				return done, skipped
			}
			body["after"] = next
		}
	}
	all := map[string]any{"prefix": "job-"}
	if done, skipped := run(map[string]any{"do": "plan", "plan": "pro", "filter": all}); done != 230 ||
		skipped != 0 {
		t.Errorf("plan: got %v done, %v skipped, want 230, 0", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "plan", "plan": "pro", "filter": all}); done != 0 ||
		skipped != 230 {
		t.Errorf("plan again: got %v done, %v skipped, want 0, 230", done, skipped)
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
		if done, skipped := run(body); done != 50 || skipped != 180 {
			t.Errorf("%s: got %v done, %v skipped, want 50, 180", body["do"], done, skipped)
		}
	}
	if done, _ := run(map[string]any{"do": "reset", "ids": ids[:2]}); done != 2 {
		t.Errorf("reset: got %v done, want 2", done)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "ids": append(ids[:2:2], "nobody")}); done != 2 ||
		skipped != 0 {
		t.Errorf("revoke: got %v done, %v skipped, want 2, 0", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "filter": all, "confirm": 230}); done != 228 ||
		skipped != 2 {
		t.Errorf("revoke all: got %v done, %v skipped, want 228, 2", done, skipped)
	}
	if k, err := s.keys.Get(t.Context(), other.ID); err != nil || k.Version != 1 {
		t.Errorf("a key outside of the filter: got %+v, %v, want version 1", k, err)
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
		"other count": `{"do":"revoke","reason":"x","filter":{"prefix":"job-"},"confirm":229}`,
	} {
		if r := s.post("/bulk", []byte(body)); r.status != http.StatusUnprocessableEntity ||
			len(r.at("errors").([]any)) == 0 {
			t.Errorf("%s: got %d %s, want 422 with errors", name, r.status, r.text)
		}
	}
}
