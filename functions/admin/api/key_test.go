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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
)

// Every operation on a key makes its change, returns the version, and is in the audit
// with author and reason.
func TestKeyOperations(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	made := s.post("/keys", map[string]any{"name": " worker ", "plan": "free", "tags": []string{"a"},
		"reason": "first"}).wants(http.StatusCreated)
	id, secret := made.stringAt("key", "id"), made.stringAt("secret")
	parsed, err := apikey.Parse(secret)
	if err != nil || parsed.ID() != id || made.header.Get("Location") != Prefix+"/keys/"+id ||
		made.stringAt("key", "name") != "worker" {
		t.Fatalf("got %v %s, want key worker with its Location and secret", err, made.text)
	}
	logged := func(action, reason string) {
		t.Helper()
		if e, _ := s.newest(id); e.Action != action || e.Reason != reason || e.By.Name != "ada" ||
			e.By.Kind != "user" {
			t.Errorf("newest audit entry: got %s by %v with reason %q, want %s by ada with %q", e.Action,
				e.By, e.Reason, action, reason)
		}
	}
	logged("key.create", "first")
	path := "/keys/" + id
	got := s.get(path).wants(http.StatusOK, `"remaining":10`)
	created := got.header.Get("ETag")
	if created == "" || created != made.header.Get("ETag") || strings.Contains(got.text, secret) ||
		strings.Contains(got.text, secret[20:]) {
		t.Errorf("got %v %s, want the created version without the secret", got.header, got.text)
	}

	patch := map[string]any{"plan": "pro", "expires": "2030-01-02T03:04:05Z", "reason": "grew"}
	s.do(http.MethodPatch, path, patch, nil).wants(http.StatusPreconditionRequired)
	edited := s.do(http.MethodPatch, path, patch, header{"If-Match": created}).wants(http.StatusOK,
		`"plan":"pro"`, `"expires":"2030-01-02T03:04:05Z"`, `"tags":["a"]`).header.Get("ETag")
	logged("key.edit", "grew")
	stale := s.do(http.MethodPatch, path, patch, header{"If-Match": created}).wants(
		http.StatusPreconditionFailed, `"currentVersion":`+strings.Trim(edited, `"`),
		`"givenVersion":`+strings.Trim(created, `"`))
	if got := stale.header.Get("ETag"); got != edited || edited == created {
		t.Errorf("got ETag %s after %s, want %s", got, created, edited)
	}
	opens := []any{map[string]any{"method": "GET", "path": "/a"}}
	s.do(http.MethodPatch, path, map[string]any{"group": "acme", "opens": opens},
		header{"If-Match": "*"}).wants(http.StatusOK, `"group":"acme"`, `"path":"/a"`)
	cleared := s.do(http.MethodPatch, path,
		map[string]any{"expires": nil, "tags": []string{}, "group": nil, "opens": nil},
		header{"If-Match": "*"}).wants(http.StatusOK)
	for _, field := range []string{"expires", "tags", "group", "opens"} {
		if strings.Contains(cleared.text, `"`+field+`"`) {
			t.Errorf("got %s, want no %s", cleared.text, field)
		}
	}

	asCleared := header{"If-Match": cleared.header.Get("ETag")}
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "abuse", "until": time.Now().Add(time.Hour)}
	s.do(http.MethodPut, path+"/override", override, nil).wants(http.StatusPreconditionRequired)
	s.do(http.MethodPut, path+"/override", override, asCleared).wants(http.StatusOK, `"requests":5`)
	logged("key.override", "abuse")
	s.get(path).wants(http.StatusOK, `"states":["overridden"]`, `"text":"5 per minute"`)
	s.do(http.MethodDelete, path+"/override?reason=over", nil,
		asCleared).wants(http.StatusPreconditionFailed)
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
		t.Errorf("rotate: got %v, the same secret, or another id", err)
	}
	logged("key.rotate", "leak")
	s.do(http.MethodPost, path+"/rotate", rotate,
		header{"If-Match": version}).wants(http.StatusPreconditionFailed)
	s.do(
		http.MethodPost,
		path+"/rotate",
		map[string]any{"grace": "0s"},
		header{
			"If-Match": rotated.header.Get("ETag"),
		},
	).wants(http.StatusConflict, "works until", "query.accept")
	s.get(path).wants(http.StatusOK, `"graceUntil"`)
	s.do(http.MethodPost, path+"/rotate?accept=true", map[string]any{"grace": "0s"},
		header{"If-Match": rotated.header.Get("ETag")}).wants(http.StatusCreated)
	s.do(http.MethodPost, path+"/rotate", map[string]any{"grace": "91d"},
		header{"If-Match": "*"}).wants(http.StatusUnprocessableEntity, "body.grace")

	s.post(path+"/reset", map[string]any{"reason": "new month"}).wants(http.StatusOK)
	logged("key.reset", "new month")
	if deleted := s.do(http.MethodDelete, path+"?reason=left", nil,
		nil).wants(http.StatusNoContent); deleted.text != "" {
		t.Errorf("got body %s, want none", deleted.text)
	}
	logged("key.delete", "left")
	s.get(path).wants(http.StatusNotFound)
	s.do(http.MethodDelete, path, nil, nil).wants(http.StatusNotFound)
}

// Of two concurrent changes of the same version, one gets 412 and the other is kept.
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
		first := waiting.For(t, "the first answer", statuses)
		second := waiting.For(t, "the second answer", statuses)
		if first[:3] == "412" {
			first, second = second, first
		}
		if first[:3] != "200" || second[:3] != "412" || s.get("/keys/"+id).stringAt("name") != first[4:] {
			t.Fatalf("round %d: got %s, %s and name %s, want 200 with that name and 412", round, first,
				second, s.get("/keys/"+id).stringAt("name"))
		}
	}
}

// Concurrent changes with If-Match * are all made.
func TestKeyAnyVersion(t *testing.T) {
	s := newService(t)
	made := s.create("contended")
	id := made.ID
	done := make(chan int, 12)
	for i := range cap(done) {
		go func() {
			done <- s.send(http.MethodPatch, "/keys/"+id, map[string]any{"name": fmt.Sprint("n", i)},
				header{"If-Match": "*"}).status
		}()
	}
	for range cap(done) {
		if status := waiting.For(t, "the answer", done); status != http.StatusOK {
			t.Errorf("got status %d, want 200", status)
		}
	}
	// Nobody changes anything else: each change of the log is one of the key.
	want := made.Version + int64(cap(done))
	if k, err := s.keys.Get(t.Context(), id); err != nil || k.Version != want {
		t.Errorf("got version %d, %v, want %d", k.Version, err, want)
	}
}

// The pages of a list have each existing key once, even if others are created meanwhile.
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
	waiting.For(t, "the first keys", ready)
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
	if err := waiting.For(t, "the new key", created); err != nil {
		t.Fatal(err)
	}
	for id, times := range seen {
		if times > 1 {
			t.Errorf("key %s is listed %d times, want once", id, times)
		}
		delete(want, id)
	}
	if len(want) > 0 || pages < count/90 {
		t.Errorf("%d of %d keys are missing from %d pages", len(want), count, pages)
	}
}

// Filters of the list select keys, alone and combined.
func TestKeyFilters(t *testing.T) {
	s := newService(t)
	s.savePlans(policy.Plan{Name: "pro", Limits: limitsOf("100 per minute")})
	a, b := s.create("alpha"), s.create("beta")
	if _, err := s.keys.Update(t.Context(), b.ID, b.Version, "key.test", byTest, func(k *policy.Key) {
		k.Plan, k.Tags = "pro", []string{"eu"}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := registrytest.Revoke(t.Context(), s.keys, a.ID, byTest); err != nil {
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
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

// The routes that a key may call are saved, read, explained and removed.
func TestAccess(t *testing.T) {
	s := newService(t)
	orders := map[string]any{"method": "GET", "path": "/orders/*"}
	id := s.post("/keys", map[string]any{"name": "a", "plan": "free", "opens": []any{orders}}).wants(
		http.StatusCreated, `"opens":[{"method":"GET","path":"/orders/*"}]`).stringAt("key", "id")
	explain := func(path, want string) {
		t.Helper()
		s.get("/explain?key="+id+"&method=GET&path="+path).wants(http.StatusOK, want)
	}
	explain("/orders/7", `"allowed":true`)
	explain("/admin", "the key does not open this route")
	s.post("/keys", map[string]any{"name": "b", "plan": "free", "opens": []any{map[string]any{"path": "x"}}}).
		wants(http.StatusUnprocessableEntity, "body.opens[0].path")
	s.do(http.MethodPatch, "/keys/"+id, map[string]any{"name": "c"}, header{"If-Match": `"3"`}).
		wants(http.StatusOK, `"opens":[{"method":"GET"`)
	cleared := s.do(http.MethodPatch, "/keys/"+id, map[string]any{"opens": []any{}},
		header{"If-Match": `"4"`}).
		wants(http.StatusOK)
	if strings.Contains(cleared.text, "opens") {
		t.Errorf("got %s, want no opens", cleared.text)
	}
	explain("/admin", `"allowed":true`)
}

// A key with a given value is created once. Neither a response nor the log contains the
// value, even if it is invalid.
func TestForeignKey(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	s := newService(t)
	body := map[string]any{"name": "old", "plan": "free", "value": value}
	s.post("/keys", body).wants(http.StatusUnprocessableEntity, "body.value", "FOREIGN_KEYS=true")
	s.keys.ForeignKeys = true
	made := s.post("/keys", body).wants(http.StatusCreated, `"foreign":true`)
	id := made.stringAt("key", "id")
	want, err := apikey.NewKey(testPepper).Foreign(value)
	if err != nil || id != want.ID() || strings.Contains(made.text, `"secret"`) {
		t.Errorf("got %v %s, want id %s and no secret", err, made.text, want.ID())
	}
	again := s.post("/keys", body).wants(http.StatusConflict, id)
	if at := again.header.Get("Location"); at != Prefix+"/keys/"+id {
		t.Errorf("got Location %q, want that of key %s", at, id)
	}
	for rejected, message := range map[string]string{
		value[:19]: "20 to 256", value + " x": "spaces", value + "\n": "spaces", value + ",": "commas",
		"tg_" + value: "Tidegate", strings.Repeat(value, 7): "20 to 256",
		strings.Repeat(value, 2000): "",
	} {
		body["value"] = rejected
		answer := s.post("/keys", body)
		if len(rejected) < 1000 {
			answer.wants(http.StatusUnprocessableEntity, "body.value", message)
		}
		if answer.status < 400 || strings.Contains(answer.text, rejected) {
			t.Errorf("got %d %.200s, want an error without the value", answer.status, answer.text)
		}
	}
	if text := s.get("/keys/"+id).wants(http.StatusOK, `"foreign":true`).text; strings.Contains(text, value) {
		t.Error("the response has the value")
	}
	if strings.Contains(s.log.String(), value[:19]) {
		t.Error("the log has the value")
	}
	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "1h"},
		header{"If-Match": `"3"`}).wants(http.StatusCreated, `"secret":"tg_live_`+id)
	if text := s.get("/keys/" + id).text; strings.Contains(text, "foreign") {
		t.Errorf("the rotated key is still foreign: %s", text)
	}
}

// A caller without an API key gets a record under the id that checks use, and then an
// override like any key.
func TestAdopt(t *testing.T) {
	s := newService(t)
	body := map[string]any{"kind": "token", "issuer": "https://issuer.example", "holder": "bob",
		"name": "bob", "reason": "abuse"}
	made := s.post("/callers", body).wants(http.StatusCreated, `"kind":"token"`)
	id := s.keys.TokenCaller("https://issuer.example", "bob")
	if made.stringAt("id") != id || made.header.Get("Location") != Prefix+"/keys/"+id ||
		made.header.Get("ETag") != `"3"` {
		t.Errorf("got %v %s, want id %s and version 3", made.header, made.text, id)
	}
	s.post("/callers", body).wants(http.StatusConflict, "already")
	override := map[string]any{"limits": []any{map[string]any{"requests": 5, "window": "1m"}},
		"reason": "abuse"}
	s.do(http.MethodPut, "/keys/"+id+"/override", override, header{"If-Match": `"3"`}).wants(http.StatusOK)
	s.do(http.MethodPost, "/keys/"+id+"/rotate", map[string]any{"grace": "0s"},
		header{"If-Match": "*"}).wants(http.StatusConflict)
	s.post("/callers", map[string]any{"kind": "address", "network": "203.0.113.7/32", "name": "home",
		"reason": "x", "override": override}).
		wants(http.StatusCreated, `"requests":5`)
	for field, body := range map[string]string{
		"body.id":      `{"kind":"token","id":"short","name":"a","reason":"x"}`,
		"body.issuer":  `{"kind":"token","holder":"bob","name":"a","reason":"x"}`,
		"body.network": `{"kind":"address","network":"home","name":"a","reason":"x"}`,
		"body.kind":    `{"kind":"key","name":"a","reason":"x"}`,
		"body.name":    `{"kind":"address","network":"203.0.113.8/32","name":" ","reason":"x"}`,
		"body.override.limits[0].requests": `{"kind":"address","network":"203.0.113.8/32","name":"a","reason":"x",` +
			`"override":{"reason":"x","limits":[{"requests":0,"window":"1s"}]}}`,
	} {
		s.post("/callers", []byte(body)).wants(http.StatusUnprocessableEntity, field)
	}
}

// An import returns a result for each key, creates no key twice, and returns no given
// value.
func TestImportKeys(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	s := newService(t)
	s.keys.ForeignKeys = true
	body := map[string]any{"keys": []any{
		map[string]any{"name": "old", "plan": "free", "value": value, "tags": []string{"customer=1"}},
		map[string]any{"name": "old", "plan": "free", "value": value},
		map[string]any{"name": "gone", "plan": "free", "status": "revoked"},
		map[string]any{"name": "lost", "plan": "none", "value": value + "x"},
		map[string]any{"name": "short", "plan": "free", "value": "x"},
		map[string]any{"name": strings.Repeat("\U0001f468\u200d", 50), "plan": "free", "value": value + "y",
			"tags": []string{"\u05d0\u200f"}},
	}}
	got := s.post("/import", body).wants(http.StatusOK, `"state":"created"`, `"state":"exists"`,
		`"state":"failed"`, "plan ", "value must have 20 to 256", `"secret":"tg_live_`)
	if strings.Contains(got.text, value) || strings.Count(got.text, `"state":"created"`) != 3 {
		t.Error(got.text)
	}
	list := s.get("/keys").wants(http.StatusOK, `"customer=1"`, `"status":"revoked"`).text
	if n := strings.Count(list, `"limits"`); n != 3 {
		t.Errorf("got %d keys: %s, want 3", n, list)
	}
	var many []any
	for i := range 101 {
		many = append(many, map[string]any{"name": fmt.Sprint(i), "plan": "free"})
	}
	s.post("/import", map[string]any{"keys": many}).wants(http.StatusUnprocessableEntity, "body.keys")
	s.post("/import", map[string]any{"keys": []any{}}).wants(http.StatusUnprocessableEntity, "body.keys")
}

// A deletion and a reset obey If-Match if it is sent, and need none.
func TestActionsObeyIfMatch(t *testing.T) {
	s := newService(t)
	k := s.create("a")
	stale, now := header{"If-Match": `"7"`}, header{"If-Match": `"3"`}
	for _, action := range []string{"revoke", "reset", "unban"} {
		s.do(http.MethodPost, "/keys/"+k.ID+"/"+action, nil, stale).wants(http.StatusPreconditionFailed)
	}
	s.do(http.MethodDelete, "/keys/"+k.ID, nil, stale).wants(http.StatusPreconditionFailed)
	s.do(http.MethodPost, "/keys/"+k.ID+"/reset", nil, now).wants(http.StatusOK)
	s.do(http.MethodPost, "/keys/"+k.ID+"/reset", nil, nil).wants(http.StatusOK)
	s.do(http.MethodDelete, "/keys/"+k.ID, nil, now).wants(http.StatusPreconditionFailed)
	s.do(http.MethodDelete, "/keys/"+k.ID, nil, header{"If-Match": `"5"`}).wants(http.StatusNoContent)
}
