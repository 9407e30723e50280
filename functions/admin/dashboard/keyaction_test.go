package dashboard

import (
	"encoding/csv"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

var secretInPage = regexp.MustCompile(`id="secret"[^>]* value="(tg_[^"]+)"`)

// The secret of a new key is in the answer that made it and nowhere else: not in the log,
// the session, an address, or any page after it.
func TestSecretIsShownOnce(t *testing.T) {
	var log strings.Builder
	s := newSite(t, withServices(func(services *Services) { services.Log = slog.New(slog.NewTextHandler(&log, nil)) })).login()
	form := fields("name", "new", "plan", "free", "env", "live", "tags", "beta, team-a", "lasts", "7d")
	made := s.post("/keys", form).wants(t, http.StatusCreated, "This is the only time", `data-copy="secret"`)
	m := secretInPage.FindStringSubmatch(made.body)
	if m == nil {
		t.Fatalf("no secret in\n%s", made.body)
	}
	secret, err := apikey.Parse(m[1])
	if err != nil {
		t.Fatal(err)
	}
	s.keys.ids["new"], s.keys.names[secret.ID()] = secret.ID(), "new"
	k := s.keys.key("new")
	if left := time.Until(k.Expires); k.Plan != "free" || len(k.Tags) != 2 || left < 6*24*time.Hour || left > 7*24*time.Hour {
		t.Errorf("made %+v", k)
	}
	rotated := s.post("/keys/{new}/rotate", fields("version", "1", "grace", "24h")).wants(t, http.StatusCreated, "The old secret is good until")
	next := secretInPage.FindStringSubmatch(rotated.body)
	if next == nil || next[1] == m[1] {
		t.Fatal("no new secret")
	}
	for _, path := range []string{"/keys", "/keys/{new}", "/audit", "/audit.csv", "/keys.csv", "/keys/{new}/rotate"} {
		body := s.get(path).wants(t, http.StatusOK).body
		if strings.Contains(body, m[1][8:]) || strings.Contains(body, next[1][20:]) {
			t.Errorf("%s shows the secret", path)
		}
	}
	for name, text := range map[string]string{"log": log.String(), "sessions": s.store.Dump(), "registry": s.keys.server.Dump()} {
		if strings.Contains(text, m[1][20:]) || strings.Contains(text, next[1][20:]) {
			t.Errorf("the %s holds the secret", name)
		}
	}
}

// Every action does what it says, tells the audit why, and is refused when the key
// changed meanwhile.
func TestKeyActions(t *testing.T) {
	s := newSite(t).login()
	version := 1
	do := func(action string, more ...string) policy.Key {
		t.Helper()
		s.get("/keys/{acme}/"+action).wants(t, http.StatusOK, fmt.Sprintf(`name="version" value="%d"`, version))
		stale := fields(append([]string{"version", "77", "reason", "stale"}, more...)...)
		s.post("/keys/{acme}/"+action, stale).wants(t, http.StatusConflict, "saved meanwhile")
		form := fields(append([]string{"version", fmt.Sprint(version), "reason", "because of " + action}, more...)...)
		s.post("/keys/{acme}/"+action, form).wants(t, http.StatusSeeOther)
		version++
		s.get("/audit?subject={acme}").wants(t, http.StatusOK, "because of "+action)
		return s.keys.key("acme")
	}
	s.keys.use("acme", 10)
	s.get("/keys?state=blocked").wants(t, http.StatusOK, "acme")
	do("reset")
	if body := s.get("/keys?state=blocked").wants(t, http.StatusOK).body; strings.Contains(body, "acme") {
		t.Error("still blocked after the reset")
	}
	if k := do("ban", "lasts", "4h"); time.Until(k.Banned) < 3*time.Hour {
		t.Errorf("banned until %s", k.Banned)
	}
	s.get("/keys?state=banned").wants(t, http.StatusOK, "acme")
	s.get("/keys/{acme}").wants(t, http.StatusOK, "This caller is banned.")
	if k := do("unban"); !k.Banned.IsZero() {
		t.Error("still banned")
	}
	if k := do("revoke"); k.Status != policy.Revoked {
		t.Error("not revoked")
	}
	s.get("/keys/{acme}/ban").wants(t, http.StatusConflict)
	if k := do("unrevoke"); k.Status != policy.Active {
		t.Error("still revoked")
	}
	if k := do("edit", "name", "acme corp", "plan", "free", "tags", "a,,b ", "lasts", "never"); k.Name != "acme corp" || len(k.Tags) != 2 {
		t.Errorf("edited to %+v", k)
	}
	s.post("/keys/{acme}/ban", fields("version", fmt.Sprint(version), "lasts", "1h")).wants(t, http.StatusUnprocessableEntity, "Say why")
	s.post("/keys/{acme}/edit", fields("version", fmt.Sprint(version), "name", " ", "plan", "none such")).
		wants(t, http.StatusUnprocessableEntity, `id="name-error"`, `id="plan-error"`)
	s.post("/keys/{acme}/delete", fields("version", fmt.Sprint(version))).wants(t, http.StatusSeeOther)
	s.get("/keys/{acme}").wants(t, http.StatusNotFound)
	s.get("/audit?subject={acme}").wants(t, http.StatusOK, "key.delete", "key.create")
	s.get("/keys/{bolt}/nonsense").wants(t, http.StatusNotFound)
}

// The list narrows by name, plan and state, with all of it in the address.
func TestKeyFilters(t *testing.T) {
	keys := newRegistry(t, "alpha", "beta", "gamma")
	keys.add("alpine", per(5, time.Minute))
	keys.override("beta", per(1, time.Hour))
	keys.use("alpha", 9)
	keys.update("gamma", func(k *policy.Key) { k.Expires, k.Tags = time.Now().Add(time.Hour), []string{"eu", "beta"} })
	s := newSite(t, withKeys(keys)).login()
	for query, want := range map[string]string{
		"": "alpha alpine beta gamma", "q=al": "alpha alpine", "plan=1": "alpha beta gamma", "plan=2&q=a": "alpine", "state=overridden": "beta",
		"state=overridden&plan=1": "beta", "state=overridden&plan=2": "", "state=near": "alpha", "state=expiring": "gamma", "state=revoked": "",
		"state=blocked": "", "tag=eu": "gamma", "tag=EU": "", "tag=eu&q=a": "", "tag=eu&state=expiring&plan=1": "gamma",
	} {
		body := s.get("/keys?"+query).wants(t, http.StatusOK).body
		got := ""
		for _, name := range []string{"alpha", "alpine", "beta", "gamma"} {
			if strings.Contains(body, "<bdi>"+name+"</bdi></a>") {
				got = strings.TrimSpace(got + " " + name)
			}
		}
		if got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"plan=x", "plan=-1", "state=odd", "order=odd", "tag=" + strings.Repeat("x", policy.MaxTagLen+1)} {
		s.get("/keys?"+query).wants(t, http.StatusBadRequest)
	}
}

// In the other orders the list has the keys with calls in this hour alone, the most
// first, and of those the ones that the filter means.
func TestKeyOrders(t *testing.T) {
	keys := newRegistry(t, "alpha", "beta", "gamma", "delta")
	for name, calls := range map[string][2]int{"alpha": {1, 0}, "beta": {9, 2}, "gamma": {4, 7}} {
		keys.called(name, time.Now(), calls[0], calls[1])
	}
	keys.strangerCalls(keys.TokenCaller("i", "s"), time.Now(), 99, 99)
	keys.update("gamma", func(k *policy.Key) { k.Tags = []string{"eu"} })
	s := newSite(t, withKeys(keys)).login()
	for query, want := range map[string]string{
		"order=busiest": "beta gamma alpha", "order=blocked": "gamma beta", "order=busiest&q=B": "beta", "order=busiest&tag=eu": "gamma",
		"order=busiest&q=delta": "",
	} {
		var got []string
		for _, m := range regexp.MustCompile(`<bdi>([a-z]+)</bdi></a>`).FindAllStringSubmatch(s.get("/keys?"+query).wants(t, http.StatusOK).body, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	s.get("/keys?order=busiest&live=2").wants(t, http.StatusOK, `value="busiest" selected`, "order=busiest")
	s.get("/keys?order=blocked&q=alpha").wants(t, http.StatusOK, "No calls this hour")
}

// A state is looked up key by key and page by page; following the links finds every key
// once.
func TestKeyFilterPages(t *testing.T) {
	keys := newRegistry(t)
	for i := range 3*app.PerScan + 20 {
		keys.create(fmt.Sprintf("k%04d", i), "free")
	}
	seen := map[string]bool{}
	for i := 0; i < 3*app.PerScan; i += 7 {
		keys.use(fmt.Sprintf("k%04d", i), 10)
	}
	s := newSite(t, withKeys(keys)).login()
	for path := "/keys?state=blocked"; path != ""; {
		page := s.get(path).wants(t, http.StatusOK)
		for _, m := range regexp.MustCompile(`<tbody id="key-([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is shown twice", m[1])
			}
			seen[m[1]] = true
		}
		next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page.body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if want := (3*app.PerScan + 6) / 7; len(seen) != want {
		t.Errorf("%d keys, want %d", len(seen), want)
	}
}

// The file has the keys of the filter; what people typed is no formula in it.
func TestKeysAsCSV(t *testing.T) {
	keys := newRegistry(t, "plain", "=HYPERLINK(1)", "@sum")
	keys.override("plain", per(3, time.Minute))
	s := newSite(t, withKeys(keys)).login()
	got := s.get("/keys.csv").wants(t, http.StatusOK)
	if got.Header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" || !strings.Contains(got.Header.Get("Content-Disposition"),
		"attachment") {
		t.Errorf("headers %v", got.Header)
	}
	rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	names := ""
	for _, row := range rows[1:] {
		names += row[1] + ";"
		if row[1] == "plain" && (row[7] != "3 per minute" || row[10] != "test") {
			t.Errorf("row %q", row)
		}
	}
	if names != "'=HYPERLINK(1);'@sum;plain;" {
		t.Errorf("names %q", names)
	}
	if rows, _ := csv.NewReader(strings.NewReader(s.get("/keys.csv?state=overridden").body)).ReadAll(); len(rows) != 2 {
		t.Errorf("%d overridden", len(rows)-1)
	}
}

// runJob follows a job to its end as a browser without scripts does, and returns its last
// page.
func (s *site) runJob(first reply) (last reply, steps int) {
	s.t.Helper()
	at := first.wants(s.t, http.StatusSeeOther).Header.Get("Location")
	for {
		page := s.get(at).wants(s.t, http.StatusOK)
		if strings.Contains(page.body, "Finished.") {
			return page, steps
		}
		at = s.post("/keys/job", hiddenIn(page.body)).wants(s.t, http.StatusSeeOther).Header.Get("Location")
		if steps++; steps > 50 {
			s.t.Fatal("the job does not end")
		}
	}
}

// All keys that match get another plan, in steps; a step that is sent twice changes
// nothing twice.
func TestBulkOnAll(t *testing.T) {
	keys := newRegistry(t, "other")
	keys.plan("pro", per(100, time.Minute))
	const count = app.Chunk + 30
	for i := range count {
		keys.create(fmt.Sprintf("k%03d", i), "free")
	}
	s := newSite(t, withKeys(keys)).login()
	s.get("/keys?q=k").wants(t, http.StatusOK, fmt.Sprintf("All %d that match", count))
	s.get("/keys/bulk?do=plan&of=all&q=k").wants(t, http.StatusOK, "all keys whose name starts with “k”", `name="to"`)
	form := fields("do", "plan", "of", "all", "q", "k", "to", "pro", "reason", "upgrade")
	s.post("/keys/bulk", with(form, "reason", "")).wants(t, http.StatusUnprocessableEntity, "Say why")
	s.post("/keys/bulk", with(form, "reason", "upgrade", "to", "none")).wants(t, http.StatusUnprocessableEntity, `id="to-error"`)
	form = fields("do", "plan", "of", "all", "q", "k", "to", "pro", "reason", "upgrade")
	last, steps := s.runJob(s.post("/keys/bulk", form))
	last.wants(t, http.StatusOK, fmt.Sprintf("%d changed, 0 left", count))
	if steps < 2 {
		t.Errorf("%d steps", steps)
	}
	set, err := keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts, err := keys.PlanCounts(t.Context(), set)
	if err != nil || counts[2] != count || counts[1] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	before := keys.written()
	last, _ = s.runJob(s.post("/keys/bulk", form))
	last.wants(t, http.StatusOK, fmt.Sprintf("0 changed, %d left", count))
	if keys.written() != before {
		t.Error("the same job wrote again")
	}
}

// The ticked keys, and no other, are overridden, reset and revoked.
func TestBulkOnSelection(t *testing.T) {
	s := newSite(t).login()
	s.keys.create("calm", "free")
	s.get("/keys/bulk?do=revoke&of=selected").wants(t, http.StatusUnprocessableEntity, "No key is selected")
	s.get("/keys/bulk?do=override&of=selected&id={acme}&id={bolt}").wants(t, http.StatusOK, "acme, bolt", `name="limits[0].requests"`)
	ids := []string{"of", "selected", "id", s.keys.ids["acme"], "id", s.keys.ids["bolt"]}
	form := fields(append(ids, "do", "override", "reason", "party", "mode", "enforce", "lasts", "1d", "limits[0].requests", "99", "limits[0].window",
		"1",
		"limits[0].unit", "hour", "limits[0].algorithm", "log")...)
	last, _ := s.runJob(s.post("/keys/bulk", form))
	last.wants(t, http.StatusOK, "2 changed")
	if a, c := s.keys.key("acme").Override, s.keys.key("calm").Override; a == nil || a.Limits[0] != per(99, time.Hour) || a.Reason != "party" ||
		c != nil {
		t.Errorf("acme %+v, calm %+v", a, c)
	}
	for _, do := range []string{"reset", "end", "revoke"} {
		last, _ = s.runJob(s.post("/keys/bulk", fields(append(ids, "do", do, "reason", do)...)))
		last.wants(t, http.StatusOK, "2 changed")
	}
	if s.keys.key("bolt").Status != policy.Revoked || s.keys.key("calm").Status != policy.Active || s.keys.key("acme").Override != nil {
		t.Error("not as it was asked for")
	}
}
