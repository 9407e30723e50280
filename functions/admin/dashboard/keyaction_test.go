package dashboard_test

import (
	"encoding/csv"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

var secretInPage = regexp.MustCompile(`id="secret"[^>]* value="(tg_[^"]+)"`)

// The secret of a new or rotated key is on one page only: no other page, log, session or
// Valkey key contains it.
func TestSecretIsShownOnce(t *testing.T) {
	var log strings.Builder
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	})).Login()
	form := fields("name", "new", "plan", "free", "env", "live", "tags", "beta, team-a", "lasts", "7d")
	created := s.PostThrough("/keys", form).Wants(t, http.StatusOK, "It is not shown again.",
		`data-copy="secret"`)
	m := secretInPage.FindStringSubmatch(created.Body)
	if m == nil {
		t.Fatalf("the page lacks the secret:\n%s", created.Body)
	}
	secret, err := apikey.Parse(m[1])
	if err != nil {
		t.Fatal(err)
	}
	s.Keys.IDs["new"], s.Keys.Names[secret.ID()] = secret.ID(), "new"
	k := s.Keys.Key("new")
	if left := time.Until(k.Expires); k.Plan != "free" || len(k.Tags) != 2 || left < 6*24*time.Hour ||
		left > 7*24*time.Hour {
		t.Errorf("created %+v, want the plan free, 2 tags and an expiry in 7 days", k)
	}
	rotated := s.PostThrough("/keys/{new}/rotate", fields("version", "{new#}", "grace", "24h")).Wants(t,
		http.StatusOK, "The previous secret works until")
	next := secretInPage.FindStringSubmatch(rotated.Body)
	if next == nil || next[1] == m[1] {
		t.Fatal("the page of the rotation lacks a new secret")
	}
	for _, path := range []string{"/keys", "/keys/{new}", "/audit", "/audit.csv", "/keys.csv",
		"/keys/{new}/rotate"} {
		body := s.Get(path).Wants(t, http.StatusOK).Body
		if strings.Contains(body, m[1][8:]) || strings.Contains(body, next[1][20:]) {
			t.Errorf("%s shows the secret", path)
		}
	}
	for name, text := range map[string]string{
		"log": log.String(), "sessions": s.Store.Dump(), "registry": s.Keys.Server.Dump(),
	} {
		if strings.Contains(text, m[1][20:]) || strings.Contains(text, next[1][20:]) {
			t.Errorf("the %s contains the secret", name)
		}
	}
}

// Every action changes the key, records its reason in the audit, and is refused if
// the key changed meanwhile.
func TestKeyActions(t *testing.T) {
	s := sitetest.New(t).Login()
	do := func(action string, more ...string) policy.Key {
		t.Helper()
		s.Get("/keys/{acme}/"+action).Wants(t, http.StatusOK,
			`name="version" value="`+s.Keys.Named("{acme#}")+`"`)
		stale := fields(append([]string{"version", "1", "reason", "stale"}, more...)...)
		s.Post("/keys/{acme}/"+action, stale).Wants(t, http.StatusConflict, "saved first")
		form := fields(append([]string{"version", "{acme#}", "reason",
			"because of " + action}, more...)...)
		s.Post("/keys/{acme}/"+action, form).Wants(t, http.StatusSeeOther)
		s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "because of "+action)
		return s.Keys.Key("acme")
	}
	s.Keys.Use("acme", 10)
	s.Get("/keys?state=blocked").Wants(t, http.StatusOK, "acme")
	do("reset")
	if body := s.Get("/keys?state=blocked").Wants(t, http.StatusOK).Body; strings.Contains(body, "acme") {
		t.Error("acme is blocked after the reset")
	}
	if k := do("ban", "lasts", "4h"); time.Until(k.Banned) < 3*time.Hour {
		t.Errorf("banned until %s, want in 4 hours", k.Banned)
	}
	s.Get("/keys?state=banned").Wants(t, http.StatusOK, "acme")
	because := func(action string) string { return ". Reason: because of " + action + "." }
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "This caller is banned.", "Banned until ",
		" by "+sitetest.User+" on ", because("ban"))
	if k := do("unban"); !k.Banned.IsZero() {
		t.Error("the key is banned after the unban")
	}
	if k := do("revoke"); k.Status != policy.Revoked {
		t.Error("the key is not revoked")
	}
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Revoked by "+sitetest.User+" on ", because("revoke"))
	s.Get("/keys/{acme}/ban").Wants(t, http.StatusConflict)
	if k := do("unrevoke"); k.Status != policy.Active {
		t.Error("the key is revoked after the restore")
	}
	if k := do("edit", "name", "acme corp", "plan", "free", "tags", "a,,b ", "lasts",
		"never"); k.Name != "acme corp" || len(k.Tags) != 2 {
		t.Errorf("edited to %+v, want the name acme corp and 2 tags", k)
	}
	s.Post("/keys/{acme}/ban", fields("version", "{acme#}", "lasts", "1h")).Wants(t,
		http.StatusUnprocessableEntity, "Enter a reason")
	s.Post("/keys/{acme}/edit", fields("version", "{acme#}", "name", " ", "plan", "none such")).
		Wants(t, http.StatusUnprocessableEntity, `id="name-error"`, `id="plan-error"`)
	s.Post("/keys/{acme}/delete", fields("version", "{acme#}")).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusNotFound)
	s.Get("/audit?subject={acme}").Wants(t, http.StatusOK, "key.delete", "key.create")
	s.Get("/keys/{bolt}/nonsense").Wants(t, http.StatusNotFound)
}

// The list filters by name, plan, state and tag, from its address.
func TestKeyFilters(t *testing.T) {
	keys := sitetest.NewRegistry(t, "alpha", "beta", "gamma")
	keys.Add("alpine", sitetest.Per(5, time.Minute))
	keys.OverrideKey("beta", sitetest.Per(1, time.Hour))
	keys.Use("alpha", 9)
	keys.UpdateKey("gamma", func(k *policy.Key) {
		k.Expires, k.Tags = time.Now().Add(time.Hour), []string{"eu", "beta"}
	})
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	for query, want := range map[string]string{
		"": "alpha alpine beta gamma", "q=al": "alpha alpine", "plan=1": "alpha beta gamma",
		"plan=2&q=a": "alpine", "state=overridden": "beta",
		"state=overridden&plan=1": "beta", "state=overridden&plan=2": "", "state=near": "alpha",
		"state=expiring": "gamma", "state=revoked": "",
		"state=blocked": "", "tag=eu": "gamma", "tag=EU": "", "tag=eu&q=b": "",
		"tag=eu&state=expiring&plan=1": "gamma",
	} {
		body := s.Get("/keys?"+query).Wants(t, http.StatusOK).Body
		got := ""
		for _, name := range []string{"alpha", "alpine", "beta", "gamma"} {
			if strings.Contains(body, "<bdi>"+name+"</bdi></a>") {
				got = strings.TrimSpace(got + " " + name)
			}
		}
		if got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"plan=x", "plan=-1", "state=odd", "order=odd",
		"tag=" + strings.Repeat("x", policy.MaxTagLen+1)} {
		s.Get("/keys?"+query).Wants(t, http.StatusUnprocessableEntity)
	}
}

// A ranking lists only keys with calls in the last hour that match the filter, those with the
// most first. The order by last use lists keys called within 24 hours.
func TestKeyOrders(t *testing.T) {
	keys := sitetest.NewRegistry(t, "alpha", "beta", "gamma", "delta")
	for name, calls := range map[string][2]int{"alpha": {1, 0}, "beta": {10, 2}, "gamma": {4, 7}} {
		keys.Called(name, time.Now(), calls[0], calls[1])
	}
	keys.UnregisteredCalls(keys.TokenCaller("i", "s"), time.Now(), 99, 99)
	keys.UpdateKey("gamma", func(k *policy.Key) { k.Tags = []string{"eu"} })
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	for query, want := range map[string]string{
		"order=busiest": "beta gamma alpha", "order=denied": "gamma beta", "order=busiest&q=B": "beta",
		"order=busiest&tag=eu":  "gamma",
		"order=busiest&q=delta": "",
	} {
		var got []string
		for _, m := range regexp.MustCompile(`<bdi>([a-z]+)</bdi></a>`).FindAllStringSubmatch(
			s.Get("/keys?"+query).Wants(t, http.StatusOK).Body, -1,
		) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	s.Get("/keys?order=busiest&live=2").Wants(t, http.StatusOK, `value="busiest" selected`, "order=busiest")
	s.Get("/keys?order=denied&q=alpha").Wants(t, http.StatusOK, "No calls in the last hour")

	last, used := 2*time.Hour, `class="number idle" data-label="Last used">2 h ago<`
	if today := time.Since(time.Now().UTC().Truncate(24 * time.Hour)); today < last { // the order is of today
		last, used = today/2, `data-label="Last used"`
	}
	keys.Called("delta", time.Now().Add(-last), 1, 0)
	keys.Called("alpha", time.Now().Add(-5*time.Minute), 0, 1)
	s.Get("/keys?order=today&live=0").Wants(t, http.StatusOK, `class="number calls" data-label="Calls">11<`,
		`class="number" data-label="Denied"><span>7`, used)
	body := s.Get("/keys?order=today").Wants(t, http.StatusOK).Body
	if at := strings.Index(body, "<bdi>delta</bdi></a>"); at < 0 ||
		at < max(strings.Index(body, "<bdi>alpha<"), strings.Index(body, "<bdi>gamma<")) {
		t.Error("delta, whose last call is the oldest, is not the last")
	}
	s.Get("/keys?order=busiest").Wants(t, http.StatusOK, "Only the top 64 callers of the last hour")
	s.Get("/keys?order=today&after=x").Wants(t, http.StatusBadRequest)
	s.Get("/callers?order=denied").Wants(t, http.StatusOK, "Only the top 64 callers of the last hour",
		`class="num" data-label="Calls"><bdi>198<`, `class="num" data-label="Denied"><span>99`)
	id := keys.TokenCaller("i", "s")
	s.Get("/callers/"+id).Wants(t, http.StatusOK, `href="/denials?key=`+id+`"`, "Denials of this caller")
	got := s.Get("/api/v1/keys?order=denied").Wants(t, http.StatusOK, `"lastHour":{"allowed":4,"denied":7,`,
		`"lastUsed":"`).Body
	if strings.Index(got, `"gamma"`) > strings.Index(got, `"beta"`) || strings.Contains(got, `"delta"`) {
		t.Errorf("the API does not list gamma before beta, or lists delta: %s", got)
	}
	s.Get("/api/v1/callers").Wants(t, http.StatusOK, `"lastHour":{"allowed":99,"denied":99,`)
}

// A filter by state reads a bounded number of keys per page. Following the links to the
// next pages lists every key once.
func TestPagesOfKeyState(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.CreateKeys(3*app.PerScan+20, "free")
	seen := map[string]bool{}
	for i := 0; i < 3*app.PerScan; i += 7 {
		keys.Use(fmt.Sprintf("k%04d", i), 10)
	}
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	for path := "/keys?state=blocked"; path != ""; {
		page := s.Get(path).Wants(t, http.StatusOK)
		for _, m := range regexp.MustCompile(`<tbody id="key-([^"]+)"`).FindAllStringSubmatch(page.Body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is listed twice", m[1])
			}
			seen[m[1]] = true
		}
		next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page.Body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if want := (3*app.PerScan + 6) / 7; len(seen) != want {
		t.Errorf("the pages list %d keys, want %d", len(seen), want)
	}
}

// The CSV has the keys that match the filter. Names in it are not formulas.
func TestKeysAsCSV(t *testing.T) {
	keys := sitetest.NewRegistry(t, "plain", "=HYPERLINK(1)", "@sum")
	keys.OverrideKey("plain", sitetest.Per(3, time.Minute))
	called := time.Now().UTC().Add(-10 * time.Minute).Truncate(time.Minute)
	keys.Called("plain", called, 7, 2)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	got := s.Get("/keys.csv").Wants(t, http.StatusOK)
	if got.Header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" ||
		!strings.Contains(got.Header.Get("Content-Disposition"),
			"attachment") {
		t.Errorf("got headers %v, want those of a CSV attachment", got.Header)
	}
	rows, err := csv.NewReader(strings.NewReader(got.Body)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v, want 4", len(rows), err)
	}
	names, plain := "", map[string]string{}
	for _, row := range rows[1:] {
		for i, column := range rows[0] {
			switch {
			case column == "name":
				names += row[i] + ";"
			case row[slices.Index(rows[0], "name")] == "plain":
				plain[column] = row[i]
			}
		}
	}
	for column, want := range map[string]string{
		"override.limits": "3 per minute", "override.reason": "test", "states": "overridden",
		"limits": "3 per minute: 0 used; 10 per 10 seconds", "lastHour.allowed": "7", "lastHour.denied": "2",
		"lastHour.refused": "0", "lastUsed": called.Format(time.RFC3339),
	} {
		if plain[column] != want {
			t.Errorf("plain has %s %q, want %q", column, plain[column], want)
		}
	}
	if names != "'=HYPERLINK(1);'@sum;plain;" {
		t.Errorf("got names %q, want formulas quoted", names)
	}
	if rows, _ := csv.NewReader(
		strings.NewReader(s.Get("/keys.csv?state=overridden").Body),
	).ReadAll(); len(rows) != 2 {
		t.Errorf("%d overridden keys, want 1", len(rows)-1)
	}
}

// A bulk job changes the plan of all keys that match, in steps. The same job, started
// again, changes no key.
func TestBulkOnAllMatching(t *testing.T) {
	keys := sitetest.NewRegistry(t, "other")
	keys.Plan("pro", sitetest.Per(100, time.Minute))
	const count = 60
	keys.CreateKeys(count, "free")
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	s.Get("/keys?q=k").Wants(t, http.StatusOK, "matching keys</a>")
	s.Get("/keys/bulk?do=plan&of=all&filter=q%3Dk").Wants(t, http.StatusOK,
		"All keys whose name contains “k”: 60.", "Change plan of 60 keys", `name="plan"`)
	typed := func() url.Values {
		return fields("do", "plan", "of", "all", "filter", "q=k", "plan", "pro", "reason", "upgrade",
			"count", "60")
	}
	form := typed()
	s.Post("/keys/bulk", sitetest.With(reviewed(s, form), "reason", "")).Wants(t,
		http.StatusUnprocessableEntity, "Enter a reason")
	s.Post("/keys/bulk", sitetest.With(form, "reason", "upgrade", "plan", "none")).Wants(t,
		http.StatusUnprocessableEntity, `id="plan-error"`)
	form = typed()
	last, _ := s.Finish(s.Post("/keys/bulk", reviewed(s, form)))
	last.Wants(t, http.StatusOK, fmt.Sprintf("%d changed, 0 unchanged", count))
	set, err := keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts, err := keys.PlanCounts(t.Context(), set)
	if err != nil || counts[2] != count || counts[1] != 1 {
		t.Errorf("keys by plan: %v, %v, want %d with plan 2 and 1 with plan 1", counts, err, count)
	}
	before := keys.Written()
	last, _ = s.Finish(s.Post("/keys/bulk", reviewed(s, form)))
	last.Wants(t, http.StatusOK, fmt.Sprintf("0 changed, %d unchanged", count))
	if keys.Written() != before {
		t.Error("the same change wrote again")
	}
}

// Overrides, resets and revocations change the ticked keys and no others.
func TestBulkOnSelection(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.CreateKey("calm", "free")
	s.Get("/keys/bulk?do=revoke&of=selected").Wants(t, http.StatusUnprocessableEntity, "No keys selected")
	s.Get("/keys/bulk?do=override&of=selected&id={acme}&id={bolt}").Wants(t, http.StatusOK, "acme, bolt",
		`id="limits"`)
	ids := []string{"of", "selected", "id", s.Keys.IDs["acme"], "id", s.Keys.IDs["bolt"]}
	form := fields(append(ids, "do", "override", "reason", "party", "mode", "enforce", "lasts", "1d",
		"limits", "99 per hour")...)
	last, _ := s.Finish(s.Post("/keys/bulk", reviewed(s, form)))
	last.Wants(t, http.StatusOK, "2 changed")
	if a, c := s.Keys.Key("acme").Override, s.Keys.Key("calm").Override; a == nil ||
		!a.Limits[0].Equal(sitetest.Per(99, time.Hour)) || a.Reason != "party" ||
		c != nil {
		t.Errorf("override of acme %+v, of calm %+v, want 99 per hour and none", a, c)
	}
	for _, do := range []string{"reset", "end", "revoke"} {
		last, _ = s.Finish(s.Post("/keys/bulk",
			reviewed(s, fields(append(ids, "do", do, "reason", do)...))))
		last.Wants(t, http.StatusOK, "2 changed")
	}
	if s.Keys.Key("bolt").Status != policy.Revoked || s.Keys.Key("calm").Status != policy.Active ||
		s.Keys.Key("acme").Override != nil {
		t.Error("bolt is not revoked, calm is not active, or acme has an override")
	}
}

// If the key changed since the form was shown, the form shows that change, and can be sent
// again.
func TestKeyActionConflict(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, action := range []string{"reset", "delete"} {
		version := s.Keys.Named("{acme#}")
		s.Keys.UpdateKey("acme", func(k *policy.Key) { k.Tags = append(k.Tags, action) })
		page := s.Post("/keys/{acme}/"+action, fields("version", version)).Wants(t, http.StatusConflict,
			"saved first", `name="version" value="`+s.Keys.Named("{acme#}")+`"`,
			`action="/keys/{acme}/`+action+`"`)
		s.Post("/keys/{acme}/"+action,
			sitetest.With(sitetest.HiddenIn(page.Body), "reason", "still")).Wants(t, http.StatusSeeOther)
	}
}
