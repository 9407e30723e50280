package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
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
