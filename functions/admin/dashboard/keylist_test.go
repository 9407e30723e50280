package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

func TestKeysPage(t *testing.T) {
	keys := sitetest.NewRegistry(t, "acme", "dinghy")
	keys.Plan("pro", sitetest.Per(1, time.Hour))
	keys.CreateKey("chandlery", "pro")
	keys.OverrideKey("chandlery", sitetest.Per(100, 10*time.Second),
		sitetest.Limit("44 per 10 minutes, counter"))
	keys.UpdateKey("dinghy", func(k *policy.Key) { k.Status = policy.Revoked })
	keys.Add("eel", sitetest.Monthly, sitetest.Hammered, sitetest.Limit("5,000 per hour, notify at 80/100 %"))
	keys.Use("acme", 10)
	keys.Use("chandlery", 37, 37)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	page := s.Get("/keys").Wants(t, http.StatusOK)
	text := sitetest.InWords(page.Body)
	for _, want := range []string{
		"Keys 4 keys",
		"acme {acme} free denied now next call in 10 s 0 allowed, 0 denied, 0 refused " +
			"0 0 never 10 per 10 seconds 10 " +
			"of 10 full 10 s",
		"chandlery {chandlery} pro near a limit override 0 allowed, 0 denied, 0 refused " +
			"0 0 never 100 per 10 seconds 37 " +
			"of 100 10 s " +
			"44 per 10 minutes counter 37 of 44 84 %",
		"dinghy {dinghy} free revoked 0 allowed, 0 denied, 0 refused 0 0 never Nothing is counted.",
		"1,000 per calendar month (Europe/Berlin) 0 of 1,000 – 100 per 10 seconds denied " +
			"calls count 0 of 100 – " +
			"5,000 per hour notify at 80/100 % 0 of 5,000",
		"As of 2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the list lacks %q:\n%s", want, text)
		}
	}
	page.Wants(t, http.StatusOK, `<rect width="37" height="6">`)
}

// keysPerPage is how many keys a page of the list has.
const keysPerPage = 50

func TestSearch(t *testing.T) {
	s := sitetest.New(t).Login()
	got := s.Get("/keys?q=AC&live=5").Wants(t, http.StatusOK, "acme", `value="AC"`,
		`<input type="hidden" name="live" value="5">`)
	if strings.Contains(got.Body, "bolt") {
		t.Error("the search for AC found bolt")
	}
	s.Get("/keys?q=zz").Wants(t, http.StatusOK, "No key found", "“zz”", `href="/keys"`)
	s.Get("/keys?q="+strings.Repeat("a", 101)).Wants(t, http.StatusUnprocessableEntity,
		"Name: must have at most 100 characters.")
	s.Get("/keys?q="+strings.Repeat("ä", 100)).Wants(t, http.StatusOK)
	s.Get("/keys?after="+strings.Repeat("a", 5000)).Wants(t, http.StatusBadRequest)
}

func TestNoKeys(t *testing.T) {
	s := sitetest.New(t, sitetest.WithKeys(sitetest.NewRegistry(t))).Login()
	s.Get("/keys").Wants(t, http.StatusOK, "No keys yet", "curl -i -H &#34;x-api-key: $KEY&#34;")
}

// Following the links to the next pages lists every key once, and keeps the search and
// the refresh interval.
func TestPages(t *testing.T) {
	keys := sitetest.NewRegistry(t, "other")
	const count = 2*keysPerPage + 7
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("key %03d", i)
	}
	keys.CreateNamed("free", names...)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	seen, pages := map[string]int{}, 0
	for path := "/keys?live=10&q=key"; path != ""; pages++ {
		page := s.Get(path).Wants(t, http.StatusOK, `data-live="10"`, `value="key"`)
		for _, id := range regexp.MustCompile(`id="key-([^"]+)"`).FindAllStringSubmatch(page.Body, -1) {
			seen[id[1]]++
		}
		if first := strings.Contains(page.Body, "First page"); first != (pages > 0) {
			t.Errorf("page %d has a link to the first page: %v, want %v", pages, first, pages > 0)
		}
		path = ""
		if next := nextInPage.FindStringSubmatch(
			page.Body); next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if pages < 3 || len(seen) != count { // a search that takes long ends its page early
		t.Errorf("%d pages with %d keys, want 3 or more with %d", pages, len(seen), count)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s is listed %d times, want once", id, times)
		}
	}
}

// The refresh interval is chosen in the address. Without one, and for an unsupported one, it
// is 5 s.
func TestLiveChoices(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, c := range []struct{ query, want string }{
		{"", "5"}, {"?live=2", "2"}, {"", "5"}, {"?live=30", "30"}, {"?live=0", "0"},
		{"?live=1", "5"}, {"?live=-5", "5"}, {"?live=5x", "5"},
	} {
		for _, path := range []string{"/keys", "/keys/{acme}"} {
			s.Get(path+c.query).Wants(t, http.StatusOK, `data-live="`+c.want+`"`)
		}
	}
	page := s.Get("/keys?q=a&live=5").Wants(t, http.StatusOK)
	for _, link := range []string{"/keys?live=0&amp;q=a", "/keys?live=2&amp;q=a", "/keys?live=5&amp;q=a",
		"/keys?live=10&amp;q=a", "/keys?live=30&amp;q=a"} {
		if !strings.Contains(page.Body, `href="`+link+`"`) {
			t.Errorf("the page lacks a link to %s", link)
		}
	}
}

// A live refresh gets only the live section, which refreshes from the same address.
func TestRefresh(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, path := range []string{"/keys?live=5&q=a", "/keys/{acme}?live=5&range=24h"} {
		got := s.Refresh(path).Wants(t, http.StatusOK, `<section id="live"`, "10 per 10 seconds")
		if !strings.HasPrefix(got.Body, "<section") || strings.Contains(got.Body, "<html") ||
			strings.Contains(got.Body, "<form") {
			t.Errorf("%s: got more than the live section: %s", path, got.Body)
		}
		if !strings.Contains(got.Body, `hx-get="`+strings.ReplaceAll(path, "&", "&amp;")+`"`) {
			t.Errorf("%s: the section refreshes from another address: %s", path, got.Body)
		}
	}
}

// While Valkey is unavailable, pages and refreshes get 503. They do not show its address.
func TestStoreUnavailable(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Fail("LOADING dial tcp 10.1.2.3:6379: refused")
	for _, path := range []string{"/keys?q=a", "/keys/{acme}", "/keys/{acme}/limits"} {
		for _, got := range []sitetest.Reply{s.Get(path), s.Refresh(path)} {
			got.Wants(t, http.StatusServiceUnavailable, "Valkey is unavailable", "Try again")
			if strings.Contains(got.Body, "10.1.2.3") {
				t.Errorf("%s: the page shows Valkey's address", path)
			}
		}
	}
}

// Names are escaped on every page, and cannot become markup or links.
func TestHostileNames(t *testing.T) {
	rows := []struct{ name, shown string }{
		{"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
		{`"><img src=x onerror=alert(1)>`, "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;"},
		{"javascript:alert(1)", "javascript:alert(1)"},
		{"{{ .Secret }} ${jndi:ldap://x}", "{{ .Secret }} ${jndi:ldap://x}"},
		{"العربية", "العربية"},
	}
	for _, row := range rows {
		keys := sitetest.NewRegistry(t)
		keys.Plan(row.name, sitetest.Per(10, 10*time.Second))
		k := keys.CreateKey(row.name, row.name)
		keys.IDs["odd"], keys.Names[k.ID] = k.ID, "odd"
		keys.UpdateKey("odd", func(k *policy.Key) {
			k.Tags = []string{page.Clip(row.name, policy.MaxTagLen)}
			k.Override = &policy.Override{Limits: []limits.Limit{sitetest.Per(1, time.Hour)},
				Reason: row.name}
		})
		s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
		for _, path := range []string{
			"/keys", "/keys/{odd}", "/keys/{odd}/limits", "/keys/{odd}/edit", "/keys/{odd}/revoke",
			"/keys/new", "/policies", "/policies/plans/2/edit",
			"/keys?state=overridden", "/audit",
			"/explain?key={odd}", "/keys/bulk?do=plan&of=selected&id={odd}",
		} {
			got := s.Get(path).Wants(t, http.StatusOK, row.shown)
			if strings.Contains(got.Body, "<script>") || strings.Contains(got.Body, "<img src=x") ||
				strings.Contains(got.Body, `href="javascript:`) {
				t.Errorf("%s: the name %q became markup", path, row.name)
			}
		}
		s.Get("/keys?q="+url.QueryEscape(page.Clip(row.name, 50))).Wants(t, http.StatusOK)
	}
}

// An invalid name gets an error at its field. It is shown without control characters, and
// the page stays small.
func TestHostileInput(t *testing.T) {
	s := sitetest.New(t).Login()
	for _, name := range []string{"abc\u202edcba", "\u2066x\u2069\u200f", "a\x00b\nc\x1b[31m", "\xff\xfe", "",
		"  ", strings.Repeat("x", 40_000)} {
		form := url.Values{"name": {name}, "plan": {"free"}, "env": {"live"}}
		got := s.Post("/keys", form)
		if got.StatusCode != http.StatusUnprocessableEntity {
			t.Fatalf("%.20q: status %d, want 422", name, got.StatusCode)
		}
		got.Wants(t, http.StatusUnprocessableEntity, "Not saved. Fix 1 field.", `id="name-error"`)
		if len(got.Body) > 20_000 || strings.ContainsAny(got.Body, "\u202e\u2066\x00\x1b") {
			t.Errorf("%.20q: the page has %d bytes, or control characters", name, len(got.Body))
		}
	}
	s.Post("/keys", url.Values{"name": {strings.Repeat("x", 1<<20)}, "plan": {"free"},
		"env": {"live"}}).Wants(t, http.StatusRequestEntityTooLarge)
	if s.Keys.Written() != 0 {
		t.Error("an invalid key was written")
	}
}

func TestKeyPage(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Add("acme", sitetest.Per(10, 10*time.Second), sitetest.Per(1000, time.Hour))
	keys.Use("acme", 10, 10)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	text := sitetest.InWords(s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body)
	text = regexp.MustCompile(`since [0-9-]{10} [0-9:]{8} UTC`).ReplaceAllString(text, "since TIME")
	for _, want := range []string{
		"denied now next call in 10 s",
		"plan acme",
		"10 per 10 seconds each caller plan acme 10 of 10 full 10 s in 10 s",
		"1,000 per hour each caller plan acme 10 of 1,000 counting since TIME 1 h –",
		"Version " + s.Keys.Named("{acme#}"), "Environment demo", "Override limits",
		"HTTP/1.1 429 Too Many Requests", "Retry-After: 10",
		"RateLimit: &#34;10 per 10 seconds&#34;;r=0;t=10, &#34;1,000 per hour&#34;;r=990;t=3600",
		"&#34;detail&#34;:&#34;The limit of 10 per 10 seconds is reached. Retry after 10 seconds.&#34;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	keys.Add("eel", sitetest.Monthly, sitetest.Hammered, sitetest.Limit("5,000 per hour, notify at 80/100 %"))
	text = sitetest.InWords(s.Get("/keys/{eel}").Wants(t, http.StatusOK).Body)
	for _, want := range []string{
		"1,000 per calendar month (Europe/Berlin) each caller plan eel 0 of 1,000 – –",
		"100 per 10 seconds denied calls count each caller plan eel 0 of 100 – –",
		"5,000 per hour notify at 80/100 % each caller plan eel 0 of 5,000 – –",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	keys.OverrideKey("acme", sitetest.Per(3, time.Minute))
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Override of plan acme. Reason: test.", "End override")
	keys.UpdateKey("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	got := s.Get("/keys/{acme}").Wants(t, http.StatusOK, "revoked", "Restore", "401")
	if strings.Contains(got.Body, "Override limits") {
		t.Error("the page offers to override the limits of a revoked key")
	}
}

// A key's chart marks the changes of its period, and the page lists the newest ten. This
// holds for keys with fewer and with more changes than a page reads, which is 20.
func TestMarksOnKeyPage(t *testing.T) {
	s, start := sitetest.New(t).Login(), time.Now()
	s.Keys.CreateKey("fresh", "free")
	at := func(d time.Duration) string { return start.UTC().Add(d).Format("2006-01-02T15:04") }
	made := 0
	for _, edits := range []int{0, 3, 22} {
		for ; made < edits; made++ {
			s.Keys.UpdateKey("fresh", func(k *policy.Key) { k.Tags = []string{strconv.Itoa(made)} })
		}
		for query, want := range map[string]int{
			"?range=1h": edits + 1,
			"?from=" + at(-time.Hour) + "&to=" + at(5*time.Minute):  edits + 1,
			"?from=" + at(-time.Hour) + "&to=" + at(-2*time.Minute): 0,
		} {
			body := s.Get("/keys/{fresh}"+query).Wants(t, http.StatusOK).Body
			marks := 0
			for _, m := range chartIn(t, body).Marks {
				if m.Text == "fresh created" || m.Text == "tags changed" {
					marks++
				}
			}
			if marks != min(want, 20) {
				t.Errorf("%d edits, %q: %d marks, want %d", edits, query, marks, min(want, 20))
			}
			if got := strings.Count(body, ">key.test of "); got != min(edits, 6) {
				t.Errorf("%d edits, %q: %d edits listed, want %d", edits, query, got, min(edits, 6))
			}
		}
	}
}
