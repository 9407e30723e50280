package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

func TestKeysPage(t *testing.T) {
	keys := newRegistry(t, "acme", "dinghy")
	keys.plan("pro", per(1, time.Hour))
	keys.create("chandlery", "pro")
	keys.override("chandlery", per(100, 10*time.Second), limiter.Limit{Requests: 44, Window: 10 * time.Minute, Algorithm: limiter.Counter})
	keys.update("dinghy", func(k *policy.Key) { k.Status = policy.Revoked })
	keys.add("eel", monthly, hammered, coarse)
	keys.use("acme", 10)
	keys.use("chandlery", 37, 37)
	s := newSite(t, withKeys(keys)).login()
	page := s.get("/keys").wants(t, http.StatusOK)
	text := inWords(page.body)
	for _, want := range []string{
		"acme {acme} Limits free blocked now next call free in 10.0 s 0 allowed, 0 blocked 10 per 10 seconds 10 of 10 full 10.0 s",
		"chandlery {chandlery} Limits pro near a limit override 0 allowed, 0 blocked 100 per 10 seconds 37 of 100 10.0 s " +
			"44 per 10 minutes estimate 37 of 44 84 %",
		"dinghy {dinghy} free revoked 0 allowed, 0 blocked 10 per 10 seconds 0 of 10 empty",
		"1,000 per calendar month (Europe/Berlin) fixed window 0 of 1,000 empty 100 per 10 seconds denied calls count 0 of 100 empty " +
			"5,000 per hour 2,500 slots 0 of 5,000",
		"As of 2026-11-21 10:30:00 UTC",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	page.wants(t, http.StatusOK, `<time datetime="2026-11-21T10:30:00Z">`, `<rect class="fill" width="37" height="8">`)
}

var markup = regexp.MustCompile(`<[^>]*>`)

// inWords returns a page's text with single spaces.
func inWords(page string) string {
	return strings.Join(strings.Fields(markup.ReplaceAllString(page, " ")), " ")
}

func TestSearch(t *testing.T) {
	s := newSite(t).login()
	got := s.get("/keys?q=AC&live=5").wants(t, http.StatusOK, "acme", `value="AC"`, `<input type="hidden" name="live" value="5">`)
	if strings.Contains(got.body, "bolt") {
		t.Error("the search found another key")
	}
	s.get("/keys?q=zz").wants(t, http.StatusOK, "No key found", "“zz”", `href="/keys"`)
	s.get("/keys?q="+strings.Repeat("a", 101)).wants(t, http.StatusBadRequest, "makes no sense")
	s.get("/keys?q="+strings.Repeat("ä", 100)).wants(t, http.StatusOK)
	s.get("/keys?after="+strings.Repeat("a", 5000)).wants(t, http.StatusBadRequest)
}

func TestNoKeys(t *testing.T) {
	s := newSite(t, withKeys(newRegistry(t))).login()
	s.get("/keys").wants(t, http.StatusOK, "No keys yet", "curl -i -H &#34;x-api-key: $KEY&#34;")
}

// Following the links from page to page shows every key once, and keeps search and
// refresh.
func TestPages(t *testing.T) {
	keys := newRegistry(t, "other")
	const count = 2*keysPerPage + 7
	for i := range count {
		keys.create(fmt.Sprintf("key %03d", i), "free")
	}
	s := newSite(t, withKeys(keys)).login()
	seen, pages := map[string]int{}, 0
	for path := "/keys?live=10&q=key"; path != ""; pages++ {
		page := s.get(path).wants(t, http.StatusOK, `data-live="10"`, `value="key"`)
		for _, id := range regexp.MustCompile(`id="key-([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
			seen[id[1]]++
		}
		if first := strings.Contains(page.body, "First page"); first != (pages > 0) {
			t.Errorf("page %d links to the first: %v", pages, first)
		}
		path = ""
		if next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(page.body); next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if pages != 3 || len(seen) != count {
		t.Errorf("%d pages with %d keys, want 3 with %d", pages, len(seen), count)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s is shown %d times", id, times)
		}
	}
}

// The refresh is chosen in the address; what is not offered is off.
func TestLiveChoices(t *testing.T) {
	s := newSite(t).login()
	for query, want := range map[string]string{
		"": "0", "?live=2": "2", "?live=30": "30", "?live=0": "0", "?live=1": "0", "?live=-5": "0", "?live=5x": "0",
	} {
		for _, path := range []string{"/keys", "/keys/{acme}"} {
			s.get(path+query).wants(t, http.StatusOK, `data-live="`+want+`"`)
		}
	}
	page := s.get("/keys?q=a&live=5").wants(t, http.StatusOK)
	for _, link := range []string{"/keys?q=a", "/keys?live=2&amp;q=a", "/keys?live=5&amp;q=a", "/keys?live=10&amp;q=a", "/keys?live=30&amp;q=a"} {
		if !strings.Contains(page.body, `href="`+link+`"`) {
			t.Errorf("no link to %s", link)
		}
	}
}

// A live refresh gets the live section alone, and it asks for the same address again.
func TestRefresh(t *testing.T) {
	s := newSite(t).login()
	for _, path := range []string{"/keys?live=5&q=a", "/keys/{acme}?live=5"} {
		got := s.refresh(path).wants(t, http.StatusOK, `<section id="live"`, "10 per 10 seconds")
		if !strings.HasPrefix(got.body, "<section") || strings.Contains(got.body, "<html") || strings.Contains(got.body, "<form") {
			t.Errorf("%s: more than the section: %s", path, got.body)
		}
		if !strings.Contains(got.body, `hx-get="`+strings.ReplaceAll(path, "&", "&amp;")+`"`) {
			t.Errorf("%s: refreshes another address: %s", path, got.body)
		}
	}
}

// A store that is away answers 503, to pages and to refreshes, and tells people nothing
// of where it is.
func TestStoreDown(t *testing.T) {
	s := newSite(t).login()
	s.keys.fail("LOADING dial tcp 10.1.2.3:6379: refused")
	for _, path := range []string{"/keys?q=a", "/keys/{acme}", "/keys/{acme}/limits"} {
		for _, got := range []reply{s.get(path), s.refresh(path)} {
			got.wants(t, http.StatusServiceUnavailable, "The store does not answer", "Try again")
			if strings.Contains(got.body, "10.1.2.3") {
				t.Errorf("%s: names the address", path)
			}
		}
	}
}

// Names are text, bounded, and cannot move what stands beside them.
func TestHostileNames(t *testing.T) {
	rows := []struct{ name, shown string }{
		{"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
		{`"><img src=x onerror=alert(1)>`, "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;"},
		{"javascript:alert(1)", "javascript:alert(1)"},
		{"{{ .Secret }} ${jndi:ldap://x}", "{{ .Secret }} ${jndi:ldap://x}"},
		{"العربية", "العربية"},
	}
	for _, row := range rows {
		keys := newRegistry(t)
		keys.plan(row.name, per(10, 10*time.Second))
		k := keys.create(row.name, row.name)
		keys.ids["odd"], keys.names[k.ID] = k.ID, "odd"
		keys.update("odd", func(k *policy.Key) {
			k.Tags = []string{page.Clip(row.name, policy.MaxTagLen)}
			k.Override = &policy.Override{Limits: []limiter.Limit{per(1, time.Hour)}, Reason: row.name}
		})
		s := newSite(t, withKeys(keys)).login()
		for _, path := range []string{
			"/keys", "/keys/{odd}", "/keys/{odd}/limits", "/keys/{odd}/edit", "/keys/{odd}/revoke", "/keys/new", "/policies", "/policies/plans/2",
			"/overrides", "/audit",
			"/explain?key={odd}", "/keys/bulk?do=plan&of=selected&id={odd}",
		} {
			got := s.get(path).wants(t, http.StatusOK, row.shown)
			if strings.Contains(got.body, "<script>") || strings.Contains(got.body, "<img src=x") || strings.Contains(got.body, `href="javascript:`) {
				t.Errorf("%s: the name became markup", path)
			}
		}
		s.get("/keys?q="+url.QueryEscape(page.Clip(row.name, 50))).wants(t, http.StatusOK)
	}
}

// What the store would refuse is refused with a word at its field, and shown escaped and
// bounded.
func TestHostileInput(t *testing.T) {
	s := newSite(t).login()
	for _, name := range []string{"abc\u202edcba", "\u2066x\u2069\u200f", "a\x00b\nc\x1b[31m", "\xff\xfe", "", "  ", strings.Repeat("x", 40_000)} {
		form := url.Values{"name": {name}, "plan": {"free"}, "env": {"live"}}
		got := s.post("/keys", form)
		if got.StatusCode != http.StatusUnprocessableEntity {
			t.Fatalf("%.20q: %d", name, got.StatusCode)
		}
		got.wants(t, http.StatusUnprocessableEntity, "Nothing was saved: 1 field needs", `id="name-error"`)
		if len(got.body) > 20_000 || strings.ContainsAny(got.body, "\u202e\u2066\x00\x1b") {
			t.Errorf("%.20q: %d bytes, or controls", name, len(got.body))
		}
	}
	s.post("/keys", url.Values{"name": {strings.Repeat("x", 1<<20)}, "plan": {"free"}, "env": {"live"}}).wants(t, http.StatusRequestEntityTooLarge)
	if s.keys.written() != 0 {
		t.Error("something was written")
	}
}

// The calls of the last hour lead to the lab, which plays exactly them.
func TestKeyPageLeadsToTheLab(t *testing.T) {
	keys := newRegistry(t)
	keys.add("acme", monthly, per(10, time.Minute))
	s := newSite(t, withKeys(keys)).login()
	const link = "Play these calls to other algorithms"
	if got := s.get("/keys/{acme}").wants(t, http.StatusOK); strings.Contains(got.body, link) {
		t.Error("no calls can be played")
	}
	keys.called("acme", time.Now(), 12, 3)
	page := s.get("/keys/{acme}").wants(t, http.StatusOK, link)
	for _, address := range addressesIn(page.body) {
		if address = html.UnescapeString(address); strings.HasPrefix(address, "/simulate?") {
			s.get(address).wants(t, http.StatusOK, "15 calls. The exact log admits 10.")
			return
		}
	}
	t.Error("no address of the lab")
}

func TestKeyPage(t *testing.T) {
	keys := newRegistry(t)
	keys.add("acme", per(10, 10*time.Second), per(1000, time.Hour))
	keys.use("acme", 10, 10)
	s := newSite(t, withKeys(keys)).login()
	text := inWords(s.get("/keys/{acme}").wants(t, http.StatusOK).body)
	for _, want := range []string{
		"blocked now next call free in 10.0 s",
		"From the plan acme.",
		"10 per 10 seconds 10 of 10 full 0 10.0 s 10.0 s exact",
		"1,000 per hour 10 of 1,000 990 1 h now exact",
		"Version 1", "Environment demo", "Override limits",
		"HTTP/1.1 429 Too Many Requests", "Retry-After: 10", "RateLimit: &#34;10 per 10 seconds&#34;;r=0;t=10, &#34;1000 per 1 hour&#34;;r=990;t=3600",
		"&#34;detail&#34;:&#34;The limit of 10 per 10 seconds is reached. Retry after 10 seconds.&#34;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	keys.add("eel", monthly, hammered, coarse)
	text = inWords(s.get("/keys/{eel}").wants(t, http.StatusOK).body)
	for _, want := range []string{
		"1,000 per calendar month (Europe/Berlin) 0 of 1,000 1,000 empty now fixed window",
		"100 per 10 seconds 0 of 100 100 empty now exact, denied calls count", "5,000 per hour 0 of 5,000 5,000 empty now exact, 2,500 slots",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	keys.override("acme", per(3, time.Minute))
	s.get("/keys/{acme}").wants(t, http.StatusOK, "From an override of the plan acme, because: test.", "End override")
	keys.update("acme", func(k *policy.Key) { k.Status = policy.Revoked })
	got := s.get("/keys/{acme}").wants(t, http.StatusOK, "revoked", "Unrevoke", "401")
	if strings.Contains(got.body, "Override limits") {
		t.Error("the limits of a revoked key can be edited")
	}
}
