package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
)

// A key's whole life: every operation does what it says, returns the version, and is
// in the audit with who and why.
func TestKeyLife(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: []limit{{Requests: 100, Window: time.Minute}}})
	made := s.post("/keys", map[string]any{"name": " worker ", "plan": "free", "tags": []string{"a"},
		"reason": "first"}).wants(http.StatusCreated)
	id, secret := made.stringAt("key", "id"), made.stringAt("secret")
	parsed, err := apikey.Parse(secret)
	if err != nil || parsed.ID() != id || made.header.Get("Location") != Prefix+"/keys/"+id ||
		made.stringAt("key", "name") != "worker" {
		t.Fatalf("%v %s", err, made.text)
	}
	logged := func(action, reason string) {
		t.Helper()
		if e, _ := s.newest(id); e.Action != action || e.Reason != reason || e.By.Name != "ada" ||
			e.By.Kind != "user" {
			t.Errorf("the audit tells %s by %v because %q, want %s because %q", e.Action, e.By, e.Reason,
				action, reason)
		}
	}
	logged("key.create", "first")
	path := "/keys/" + id
	got := s.get(path).wants(http.StatusOK, `"remaining":10`)
	if got.header.Get("ETag") != `"1"` || strings.Contains(got.text, secret) ||
		strings.Contains(got.text, secret[20:]) {
		t.Errorf("%v %s", got.header, got.text)
	}

	patch := map[string]any{"plan": "pro", "expires": "2030-01-02T03:04:05Z", "reason": "grew"}
	s.do(http.MethodPatch, path, patch, nil).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPatch, path, patch, header{"If-Match": `"1"`}).wants(http.StatusOK, `"plan":"pro"`,
		`"expires":"2030-01-02T03:04:05Z"`,
		`"tags":["a"]`)
	logged("key.edit", "grew")
	stale := s.do(http.MethodPatch, path, patch,
		header{"If-Match": `"1"`}).wants(http.StatusPreconditionFailed, `"currentVersion":2`,
		`"givenVersion":1`)
	if stale.header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s", stale.header.Get("ETag"))
	}
	cleared := s.do(http.MethodPatch, path, map[string]any{"expires": nil, "tags": []string{}},
		header{"If-Match": "*"}).wants(http.StatusOK,
		`"version":3`)
	if strings.Contains(cleared.text, "expires") || strings.Contains(cleared.text, "tags") {
		t.Errorf("not cleared: %s", cleared.text)
	}

	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "abuse", "until": time.Now().Add(time.Hour)}
	s.do(http.MethodPut, path+"/override", override, nil).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPut, path+"/override", override, header{"If-Match": `"3"`}).wants(http.StatusOK,
		`"requests":5`)
	logged("key.override", "abuse")
	s.get(path).wants(http.StatusOK, `"states":["overridden"]`, `"text":"5 per minute"`)
	s.do(http.MethodDelete, path+"/override?reason=over", nil,
		header{"If-Match": `"3"`}).wants(http.StatusPreconditionFailed)
	s.do(http.MethodDelete, path+"/override?reason=over", nil, nil).wants(http.StatusOK)
	logged("key.override.end", "over")
	s.do(http.MethodDelete, path+"/override", nil, nil).wants(http.StatusNotFound)

	s.post(path+"/ban", map[string]any{"until": time.Now().Add(time.Hour), "reason": "flood"}).wants(
		http.StatusOK, "bannedUntil")
	logged("key.ban", "flood")
	s.get(path).wants(http.StatusOK, `"states":["banned"]`)
	s.post(path+"/unban", map[string]any{"reason": "calm"}).wants(http.StatusOK)
	logged("key.unban", "calm")
	s.post(path+"/ban", map[string]any{"until": time.Now().Add(-time.Hour), "reason": "late"}).wants(
		http.StatusUnprocessableEntity, "body.until")

	s.post(path+"/revoke", nil).wants(http.StatusOK, `"status":"revoked"`)
	logged("key.revoke", "")
	s.post(path+"/revoke", nil).wants(http.StatusConflict)
	s.post(path+"/reset", nil).wants(http.StatusConflict)
	s.do(http.MethodPut, path+"/override", override, header{"If-Match": "*"}).wants(http.StatusConflict)
	s.post(path+"/unrevoke", map[string]any{}).wants(http.StatusOK, `"status":"active"`)
	logged("key.unrevoke", "")
	s.post(path+"/unrevoke", nil).wants(http.StatusConflict)

	version := s.get(path).header.Get("ETag")
	rotate := map[string]any{"grace": "24h", "reason": "leak"}
	s.post(path+"/rotate", rotate).wants(http.StatusPreconditionRequired)
	rotated := s.do(http.MethodPost, path+"/rotate", rotate,
		header{"If-Match": version}).wants(http.StatusCreated, "graceUntil")
	again, err := apikey.Parse(rotated.stringAt("secret"))
	if err != nil || again.ID() != id || rotated.stringAt("secret") == secret {
		t.Errorf("%v: the same secret, or another id", err)
	}
	logged("key.rotate", "leak")
	s.do(http.MethodPost, path+"/rotate", rotate,
		header{"If-Match": version}).wants(http.StatusPreconditionFailed)
	s.do(http.MethodPost, path+"/rotate", map[string]any{"grace": "0s"},
		header{"If-Match": rotated.header.Get("ETag")}).wants(http.StatusConflict, "good until", "endGrace")
	s.get(path).wants(http.StatusOK, `"graceUntil"`)
	s.do(http.MethodPost, path+"/rotate", map[string]any{"grace": "0s", "endGrace": true},
		header{"If-Match": rotated.header.Get("ETag")}).wants(http.StatusCreated)
	s.do(http.MethodPost, path+"/rotate", map[string]any{"grace": "91d"},
		header{"If-Match": "*"}).wants(http.StatusUnprocessableEntity, "body.grace")

	s.post(path+"/reset", map[string]any{"reason": "new month"}).wants(http.StatusOK)
	logged("key.reset", "new month")
	if gone := s.do(http.MethodDelete, path+"?reason=left", nil,
		nil).wants(http.StatusNoContent); gone.text != "" {
		t.Errorf("a body: %s", gone.text)
	}
	logged("key.delete", "left")
	s.get(path).wants(http.StatusNotFound)
	s.do(http.MethodDelete, path, nil, nil).wants(http.StatusNotFound)
}

// Of two who change the same version one gets 412, and the winner's change stands.
func TestKeyRace(t *testing.T) {
	s := newService(t)
	id := s.create("contended").ID
	for round := range 10 {
		version := s.get("/keys/" + id).header.Get("ETag")
		statuses := make(chan string, 2)
		for _, name := range []string{"left", "right"} {
			go func() {
				r := s.send(http.MethodPatch, "/keys/"+id, map[string]any{"name": fmt.Sprint(name, round)},
					header{"If-Match": version})
				statuses <- fmt.Sprint(r.status, " ", name, round)
			}()
		}
		first, second := <-statuses, <-statuses
		if first[:3] == "412" {
			first, second = second, first
		}
		if first[:3] != "200" || second[:3] != "412" || s.get("/keys/"+id).stringAt("name") != first[4:] {
			t.Fatalf("round %d: %s and %s, name %s", round, first, second,
				s.get("/keys/"+id).stringAt("name"))
		}
	}
}

// Whoever changes whatever is there loses no change of others.
func TestKeyAnyVersion(t *testing.T) {
	s := newService(t)
	id := s.create("contended").ID
	done := make(chan int, 4)
	for i := range cap(done) {
		go func() {
			done <- s.send(http.MethodPatch, "/keys/"+id, map[string]any{"name": fmt.Sprint("n", i)},
				header{"If-Match": "*"}).status
		}()
	}
	changed := 0
	for range cap(done) {
		if status := <-done; status == http.StatusOK {
			changed++
		} else if status != http.StatusPreconditionFailed {
			t.Errorf("%d", status)
		}
	}
	if k, err := s.keys.Get(t.Context(), id); err != nil || k.Version != int64(1+changed) || changed == 0 {
		t.Errorf("%d changes, version %d, %v", changed, k.Version, err)
	}
}

// The pages of a list hold each key that is there all the while once, though others are
// created meanwhile, and the filters narrow it.
func TestKeyPages(t *testing.T) {
	s := newService(t)
	const count = 1100
	want := map[string]bool{}
	for i := range count {
		want[s.create(fmt.Sprintf("k%04d", i)).ID] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	created, ready := make(chan error, 1), make(chan struct{})
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			if _, _, err := s.keys.Create(t.Context(),
				policy.NewKey{Name: fmt.Sprintf("k%04d", (i*37)%count), Env: "test", Plan: "free"},
				byTest); err != nil {
				created <- err
				return
			}
			if i == 5 {
				close(ready)
			}
		}
		created <- nil
	}()
	<-ready
	seen := map[string]int{}
	pages := 0
	for next := ""; pages == 0 || next != ""; pages++ {
		page := s.send(http.MethodGet, "/keys?count=90&prefix=K&after="+next, nil, nil).wants(http.StatusOK)
		items, _ := page.at("items").([]any)
		for i := range items {
			seen[page.stringAt("items", i, "id")]++
		}
		next = page.stringAt("next")
	}
	stop()
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	for id, times := range seen {
		if times > 1 {
			t.Errorf("%s is listed %d times", id, times)
		}
		delete(want, id)
	}
	if len(want) > 0 || pages < count/90 {
		t.Errorf("%d of %d keys are missing from %d pages", len(want), count, pages)
	}
}

func TestKeyFilters(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: []limit{{Requests: 100, Window: time.Minute}}})
	a, b := s.create("alpha"), s.create("beta")
	if _, err := s.keys.Update(t.Context(), b.ID, 1, "key.test", byTest, func(k *policy.Key) {
		k.Plan, k.Tags = "pro", []string{"eu"}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Revoke(t.Context(), a.ID, 1, byTest); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"": "alpha beta", "prefix=AL": "alpha", "plan=pro": "beta", "plan=free": "alpha",
		"state=revoked": "alpha", "state=blocked": "",
		"state=revoked&plan=pro": "", "prefix=x": "", "tag=eu": "beta", "tag=us": "", "tag=eu&prefix=a": "",
	} {
		r := s.get("/keys?" + query).wants(http.StatusOK)
		var names []string
		items, _ := r.at("items").([]any)
		for i := range items {
			names = append(names, r.stringAt("items", i, "name"))
		}
		if got := strings.Join(names, " "); got != want || !strings.Contains(r.text, `"items":[`) {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
}

// A job has an id and a state, and another job takes it back, but for what was changed
// since.
func TestBulkJobAndUndo(t *testing.T) {
	s := newService(t)
	a, b := s.create("a"), s.create("b")
	r := s.post("/bulk", map[string]any{"do": "revoke", "filter": map[string]any{}, "confirm": 2,
		"reason": "x"}).
		wants(http.StatusOK, `"total":2`, `"done":2`)
	job := r.stringAt("job")
	s.get("/bulk/"+job).wants(http.StatusOK, `"do":"revoke"`, `"done":2`, `"ended":`, `"left":[]`, `"stopped":false`)
	s.get("/audit?action=key.&job="+job).wants(http.StatusOK, a.ID, b.ID, `"job":"`+job+`"`)
	s.post("/keys/"+b.ID+"/unrevoke", map[string]any{"reason": "mine"})
	undo := s.post("/bulk/"+job+"/undo", map[string]any{"reason": "by mistake"}).wants(http.StatusOK,
		`"do":"undo"`, `"undoes":"`+job+`"`, `"done":1`)
	s.post("/bulk/"+undo.stringAt("id"), nil).wants(http.StatusOK, `"ended":`)
	if k, err := s.keys.Get(t.Context(), a.ID); err != nil || k.Status != policy.Active {
		t.Errorf("%+v, %v", k, err)
	}
	s.get("/bulk/nobody").wants(http.StatusNotFound, "There is no such job.")
	s.post("/bulk", map[string]any{"do": "reset", "ids": []string{a.ID}, "reason": "x", "after": job}).
		wants(http.StatusUnprocessableEntity, "body.after")
	reset := s.post("/bulk", map[string]any{"do": "reset", "ids": []string{a.ID},
		"reason": "x"}).stringAt("job")
	s.post("/bulk/"+reset+"/undo", map[string]any{"reason": "x"}).wants(http.StatusConflict)
}

// A request that a script repeats does not go on with a job that somebody stopped, unless
// it says so.
func TestStoppedBulkJob(t *testing.T) {
	s := newService(t)
	a := s.create("a")
	keys := app.NewRegistry(s.keys, usage.NewReader(s.client))
	job, err := keys.StartJob(t.Context(), nil, app.Job{Do: app.Revoke, IDs: []string{a.ID}, Total: 1},
		byTest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.StopJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	again := map[string]any{"do": "revoke", "ids": []string{a.ID}, "reason": "x", "after": job.ID}
	for range 2 {
		s.post("/bulk/"+job.ID, nil).wants(http.StatusConflict, "The job is stopped.", job.ID+"?resume=true")
		s.post("/bulk", again).wants(http.StatusConflict, "The job is stopped.")
		s.get("/bulk/"+job.ID).wants(http.StatusOK, `"stopped":true`, `"done":0`)
	}
	s.post("/bulk/"+job.ID+"/undo", map[string]any{"reason": "x"}).wants(http.StatusConflict,
		"nothing of this job")
	s.post("/bulk/"+job.ID+"?resume=true", nil).wants(http.StatusOK, `"ended":`, `"stopped":false`, `"done":1`)
	s.post("/bulk/"+job.ID, nil).wants(http.StatusOK, `"ended":`)
}

// A job goes on where it stopped, leaves alone what is as it should be, and does nothing
// twice.
func TestBulk(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: []limit{{Requests: 100, Window: time.Minute}}})
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
		t.Errorf("plan: %v done, %v skipped", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "plan", "plan": "pro", "filter": all}); done != 0 ||
		skipped != 230 {
		t.Errorf("plan again: %v done, %v skipped", done, skipped)
	}
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "test"}
	for want := range 2 { // the second time nothing is left to do
		if done, _ := run(map[string]any{"do": "override", "override": override, "ids": ids[:3]}); done !=
			float64(3*(1-want)) {
			t.Errorf("override: %v done", done)
		}
	}
	if done, _ := run(map[string]any{"do": "end",
		"filter": map[string]any{"state": "overridden"}}); done != 3 {
		t.Errorf("end: %v done", done)
	}
	if done, _ := run(map[string]any{"do": "reset", "ids": ids[:2]}); done != 2 {
		t.Errorf("reset: %v done", done)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "ids": append(ids[:2:2], "nobody")}); done != 2 ||
		skipped != 0 {
		t.Errorf("revoke: %v done, %v skipped", done, skipped)
	}
	if done, skipped := run(map[string]any{"do": "revoke", "filter": all, "confirm": 230}); done != 228 ||
		skipped != 2 {
		t.Errorf("revoke all: %v done, %v skipped", done, skipped)
	}
	if k, err := s.keys.Get(t.Context(), other.ID); err != nil || k.Version != 1 {
		t.Errorf("another key was changed: %+v, %v", k, err)
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
		"other count": `{"do":"revoke","reason":"x","filter":{"prefix":"job-"},"confirm":229}`,
	} {
		if r := s.post("/bulk", []byte(body)); r.status != http.StatusUnprocessableEntity ||
			len(r.at("errors").([]any)) == 0 {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}
