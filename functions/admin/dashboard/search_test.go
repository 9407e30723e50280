package dashboard_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server"
	"tidegate/internal/cause"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// A search for an id or a secret, also with spaces around it, redirects to the key. A
// secret, valid or mistyped, appears in no page, address or log.
func TestFindKey(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	})).LoginAs(sitetest.Viewer)
	secret, id, spaced := s.Keys.Secrets["acme"].Reveal(), s.Keys.IDs["acme"], " acme"
	for typed, want := range map[string]string{
		secret: "/keys/" + id, "  " + secret + "\n": "/keys/" + id, " " + id: "/keys/" + id,
		secret[:len(secret)-1] + "!": "/keys", secret[:40]: "/keys", spaced: "/keys?q=acme",
		"//evil.example": "/keys?q=%2F%2Fevil.example", "nobody": "/keys?q=nobody", "": "/keys",
		"tg_team": "/keys?q=tg_team",
	} {
		found := s.Post("/search", url.Values{"q": {typed}}).Wants(t, http.StatusSeeOther)
		if at := found.Header.Get("Location"); s.Keys.Named(at) != s.Keys.Named(want) {
			t.Errorf("the search for %.20q redirects to %s, want %s", typed, at, want)
		}
	}
	at := s.Get("/keys?q=+"+url.QueryEscape(secret)).Wants(t, http.StatusSeeOther)
	if s.Keys.Named(at.Header.Get("Location")) != "/keys/"+id || strings.Contains(at.Body, secret) {
		t.Errorf("a secret in the address redirects to %s, want the key", at.Header.Get("Location"))
	}
	if strings.Contains(log.String(), secret[20:40]) || strings.Contains(s.Store.Dump(), secret[20:40]) {
		t.Error("the secret is in the log or the store")
	}
}

// A search finds any part of a name. Names that start with it come first, and later pages
// have each of the others once.
func TestFindPartOfName(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Plan("free", sitetest.Per(10, time.Minute))
	keys.Plan("gold", sitetest.Per(10, time.Minute))
	free, gold := []string{"other"}, []string{}
	for i := range 60 {
		free = append(free, fmt.Sprintf("%c corp %02d", 'a'+i%26, i))
	}
	for i := range 30 {
		gold = append(gold, fmt.Sprintf("Corp-%02d", i))
	}
	keys.CreateNamed("free", free...)
	keys.CreateNamed("gold", gold...)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	named := regexp.MustCompile(`(?i)<bdi>([a-z]? ?corp.\d\d)</bdi></a>`)
	var found []string
	for at := "/keys?q=+CORP"; ; {
		body := s.Get(at).Wants(t, http.StatusOK, `aria-label="Remove Name: CORP"`).Body
		for _, name := range named.FindAllStringSubmatch(body, -1) {
			found = append(found, name[1])
		}
		next := nextInPage.FindStringSubmatch(body)
		if next == nil || len(found) > 100 {
			break
		}
		at = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	sorted := slices.Sorted(slices.Values(found))
	if len(found) != 90 || len(slices.Compact(sorted)) != 90 || found[0] != "Corp-00" ||
		found[29] != "Corp-29" {
		t.Errorf("got %d keys, want 90 different ones, those that start with corp first: %q",
			len(found), found)
	}
	if body := s.Get("/keys?q=corp&plan=gold").Body; len(named.FindAllString(body, -1)) != 30 {
		t.Errorf("the filter by the name of the plan gold has %d keys, want 30",
			len(named.FindAllString(body, -1)))
	}
	s.Get("/keys?plan=silver").Wants(t, http.StatusUnprocessableEntity, "Plan: no plan has this name.")
	s.Get("/keys/bulk?do=end&of=all&filter=q%3Dcorp").Wants(t, http.StatusOK,
		"All keys whose name contains “corp”: 90.")
}

// Explain and the audit find a key by id, secret or name. If several keys have the
// name, they list them. The audit also finds the name of a deleted key.
func TestFindByName(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.CreateKey("Acme", "free") // in addition to acme
	s.Keys.CreateKey("zeta", "free")
	secret := s.Keys.Secrets["bolt"].Reveal()
	searchTarget := func(form url.Values) string {
		t.Helper()
		return s.Keys.Named(s.Post("/search", form).Wants(t, http.StatusSeeOther).Header.Get("Location"))
	}
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{fields("on", "explain", "key", " "+secret, "path", "/x"), "/explain?key={bolt}&path=%2Fx"},
		{fields("on", "explain", "key", "bolt", "method", "PUT"), "/explain?key=bolt&method=PUT"},
		{fields("on", "explain", "key", secret[:40]), "/explain"},
		{fields("on", "audit", "subject", secret, "action", "key.", "from", "2026-11-20T10:00"),
			"/audit?action=key.&from=2026-11-20T10%3A00&subject={bolt}"},
		{fields("on", "audit", "subject", "policy"), "/audit?subject=policy"},
	} {
		if at := searchTarget(c.form); at != s.Keys.Named(c.want) {
			t.Errorf("the search %v redirects to %s, want %s", c.form, at, c.want)
		}
	}
	s.Post("/search", fields("on", "elsewhere")).Wants(t, http.StatusBadRequest)
	s.Get("/explain?key=BOLT").Wants(t, http.StatusOK, `href="/keys/{bolt}"`, "falls under no route")
	s.Get("/explain?key=bol").Wants(t, http.StatusOK, `href="/keys/{bolt}"`)
	s.Get("/explain?key=acme&path=/orders").Wants(t, http.StatusOK, "Several keys match this name",
		`key={acme}&amp;path=%2Forders"`, "<bdi>Acme</bdi>")
	s.Get("/audit?subject=bolt").Wants(t, http.StatusOK, "Changes of", "key.create", `value="{bolt}"`)
	if body := s.Get("/audit?subject=acme").Wants(t, http.StatusUnprocessableEntity, "Several "+
		"keys").Body; strings.Contains(body, "key.create</code>") {
		t.Error("the audit lists entries although several keys have the name")
	}
	s.Get("/audit?subject="+secret).Wants(t, http.StatusUnprocessableEntity, "pasted a whole secret")
	s.Post("/keys/{zeta}/delete", fields("version", "{zeta#}", "reason", "left us", "confirm",
		"zeta")).Wants(t,
		http.StatusSeeOther)
	deleted := s.Get("/audit?subject=Zeta").Wants(t, http.StatusOK, "left us", "key.create").Body
	if strings.Contains(deleted, "<bdi>bolt</bdi>") {
		t.Error("the entries of zeta include one of bolt")
	}
	s.Get("/audit?subject={zeta}").Wants(t, http.StatusOK, "left us")
	s.Get("/audit?subject=nobody").Wants(t, http.StatusOK, "No key, plan or route has this name")
}

// The audit's filter includes entries at the instant from, and excludes those at to.
func TestAuditByDates(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, name := range []string{"one", "two", "three"} {
		s.Keys.CreateKey(name, "free")
	}
	list, err := s.Keys.Audit(t.Context(), registry.AuditQuery{Action: registry.KeyCreate})
	if err != nil || len(list.Entries) < 3 {
		t.Fatalf("got %d entries, %v, want at least 3", len(list.Entries), err)
	}
	subject := regexp.MustCompile(`(?s)data-label="Action">.*?<bdi>([^<]*)</bdi>`)
	names := func(path string) string {
		var all []string
		for _, m := range subject.FindAllStringSubmatch(s.Get(path).Wants(t, http.StatusOK).Body, -1) {
			all = append(all, m[1])
		}
		return strings.Join(all, " ")
	}
	at := func(i int, add time.Duration) string {
		return url.QueryEscape(list.Entries[i].Time.Add(add).UTC().Format(time.RFC3339Nano))
	}
	if got := names("/audit?action=key.create&from=" + at(2, 0) + "&to=" + at(0, 0)); got != "two one" {
		t.Errorf("got %q, want two and one", got)
	}
	if got := names("/audit?action=key.create&from=" + at(0, time.Nanosecond)); got != "" {
		t.Errorf("after the newest got %q, want none", got)
	}
	s.Get("/audit?from=2099-01-01T00:00&to=2099-01-02T00:00").Wants(t, http.StatusOK, "No changes found")
	s.Get("/audit?from=yesterday").Wants(t, http.StatusUnprocessableEntity, "From: must be a date and a time")
	s.Get("/audit.csv?to=yesterday").Wants(t, http.StatusBadRequest)
	s.Get("/api/v1/audit?action=key.create&from="+at(0, time.Nanosecond)).Wants(t, http.StatusOK,
		`"items":[]`)
	s.Get("/api/v1/audit?action=key.create&to="+at(0, time.Nanosecond)).Wants(t, http.StatusOK, `"three"`)
	s.Get("/api/v1/audit?action=key.create&count=1&to="+at(0, 0)).Wants(t, http.StatusOK, `"name":"two"`)
	s.Get("/api/v1/audit?name=THREE").Wants(t, http.StatusOK, `"name":"three"`)
}

// keysInState follows the pages of keys in a state. It returns the sorted names and the
// number of pages.
func keysInState(s *sitetest.Site, state string) (names []string, pages int) {
	for at := "/keys?state=" + state; ; pages++ {
		body := s.Get(at).Wants(s.T, http.StatusOK).Body
		for _, m := range regexp.MustCompile(`<bdi>([^<]+)</bdi></a>`).FindAllStringSubmatch(body, -1) {
			names = append(names, m[1])
		}
		next := nextInPage.FindStringSubmatch(body)
		if next == nil || pages > 100 {
			slices.Sort(names)
			return names, pages + 1
		}
		at = strings.ReplaceAll(next[1], "&amp;", "&")
	}
}

// Among 600 keys, the first page of the states banned, blocked and near has all keys in
// that state: a ban, a used-up limit, at most a fifth left. A key
// that may call again is in none of them, whatever was recorded.
func TestFirstPageOfKeyStates(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Plan("free", sitetest.Per(10, time.Hour))
	names := make([]string, 600)
	for i := range names {
		names[i] = fmt.Sprintf("customer-%03d", i)
	}
	keys.CreateNamed("free", names...)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	now := time.Now()
	denied := func(name string, by cause.Cause) {
		keys.Record(records.Call{Caller: keys.IDs[name], Registered: true, Time: now, Cause: by,
			Limit: "10 per hour", RetryAfter: time.Hour})
	}
	for _, name := range []string{"customer-590", "customer-591"} {
		s.Post("/keys/{"+name+"}/ban", fields("lasts", "1h", "version", "{"+name+"#}", "reason",
			"abuse")).Wants(t,
			http.StatusSeeOther)
	}
	denied("customer-592", cause.Ban) // no longer banned
	for _, name := range []string{"customer-593", "customer-594", "customer-595"} {
		keys.Use(name, 10)
		denied(name, cause.Limit)
	}
	keys.Use("customer-596", 8)
	keys.Use("customer-597", 9)
	keys.Use("customer-598", 7)
	s.Post("/keys/{customer-595}/reset", fields("version", "{customer-595#}", "reason", "sorry", "confirm",
		"customer-595")).Wants(t, http.StatusSeeOther)
	for state, want := range map[string][]string{
		"banned":  {"customer-590", "customer-591"},
		"blocked": {"customer-593", "customer-594"},
		"near":    {"customer-596", "customer-597"},
	} {
		if names, pages := keysInState(s, state); !slices.Equal(names, want) || pages != 1 {
			t.Errorf("%s: got %v on %d pages, want %v on one", state, names, pages, want)
		}
	}
	s.Get("/keys?state=banned&after=!").Wants(t, http.StatusBadRequest)
	s.Get("/api/v1/keys?state=blocked&count=1").Wants(t, http.StatusOK, `"next"`)
	s.Get("/keys.csv?state=blocked").Wants(t, http.StatusOK, "customer-593", "customer-594")
}
