package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/testing/sitetest"
)

var foundLink = regexp.MustCompile(`<li><a href="([^"]*)"><bdi>([^<]*)</bdi>`)

// findAll returns the results of a search as "text address", as the palette gets them.
func findAll(s *sitetest.Site, text string) (all []string) {
	s.T.Helper()
	header := http.Header{"Hx-Request": {"true"}, "Sec-Fetch-Site": {"same-origin"}, "Origin": {s.Server.URL}}
	got := s.Do(http.MethodPost, "/search", url.Values{"on": {"find"}, "q": {text}}, header).
		Wants(s.T, http.StatusOK)
	for _, m := range foundLink.FindAllStringSubmatch(got.Body, -1) {
		all = append(all, html.UnescapeString(m[2]+" "+m[1]))
	}
	return all
}

// The search for anything finds keys, groups, plans, pages and actions by name, callers and
// denied calls by their ids, and keys by their secrets. A viewer gets no action.
func TestFind(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.Plan("acme rates", sitetest.Per(5, time.Minute))
	s.Keys.UpdateKey("bolt", func(k *policy.Key) { k.Group = "Acme-fleet" })
	s.Keys.CreateKey("my-acme", "acme rates")
	s.Keys.CreateKey("<b>&x", "free")
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []limits.Route{sitetest.Route("slow", "5", "GET /orders/{id}")}
	})
	const request = "0b2a7d6c-3b52-4d7e-9f11-5a5f0c1d2e3f"
	caller := strings.Repeat("a", 21) + "_"
	address := func(network string) string { return s.Keys.AddressCaller(netip.MustParsePrefix(network)) }
	for text, want := range map[string][]string{
		"ACME": {"acme /keys/{acme}", "my-acme /keys/{my-acme}", "Acme-fleet (1 key) /groups/Acme-fleet",
			"acme rates /policies/plans/2"},
		"acme rates":             {"acme rates /policies/plans/2"},
		"SLOW":                   {"slow /policies/routes/edit?route=slow"},
		"get /ord":               {"slow /policies/routes/edit?route=slow"},
		" " + s.Keys.IDs["bolt"]: {"bolt /keys/{bolt}"},
		"<b>":                    {"<b>&x /keys/{<b>&x}"},
		"denial":                 {"Denials /denials"},
		"create a p":             {"Create a plan /policies/plans/new"},
		request: {"No denial is known of request " + request +
			" /denials?request=" + request},
		"JKJaXmPLvHcESHA=": {"No denial is known of request JKJaXmPLvHcESHA= " +
			"/denials?request=JKJaXmPLvHcESHA%3D"},
		caller:           {"Caller " + caller + " /callers/" + caller},
		"203.0.113.7":    {"Caller 203.0.113.7/32 /callers/" + address("203.0.113.7/32")},
		"2001:db8::1":    {"Caller 2001:db8::/64 /callers/" + address("2001:db8::/64")},
		"//evil.example": nil,
	} {
		if got := findAll(s, text); !slices.Equal(got, want) {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
	all := findAll(s, "")
	for _, want := range []string{"Overview /", "Overridden keys /keys?state=overridden",
		"Create a key /keys/new"} {
		if !slices.Contains(all, want) {
			t.Errorf("without text, %q is not in %q", want, all)
		}
	}
	page := s.Get("/search?q=%3Cb%3E").Wants(t, http.StatusOK, `href="/keys/{<b>&x}"`, `<bdi>&lt;b&gt;</bdi>`)
	if strings.Contains(page.Body, "<bdi><b>") {
		t.Error("the page has the markup of a name")
	}
	s.Get("/search?q=nobody").Wants(t, http.StatusOK, "No results")
	s.LoginAs(sitetest.Viewer)
	if got := findAll(s, "slow"); !slices.Equal(got, []string{"slow /policies#routes"}) {
		t.Errorf("a viewer who looks for a route finds %q", got)
	}
	for _, text := range []string{"", "create", "import"} {
		if all := strings.Join(findAll(s, text), ", "); strings.Contains(all, "Create") ||
			strings.Contains(all, "Import") || (text == "") != strings.Contains(all, "Settings /settings") {
			t.Errorf("%q offers a viewer %s", text, all)
		}
	}
}

// A pasted secret is judged as checks judge it: the current one, the previous one until its
// grace ends, and one that a rotation replaced.
func TestFindDeadSecret(t *testing.T) {
	s := sitetest.New(t).Login()
	secret := s.Keys.Secrets["acme"].Reveal()
	found := func(wants string) {
		t.Helper()
		body := s.Do(http.MethodPost, "/search", fields("on", "find", "q", secret),
			http.Header{"Hx-Request": {"true"}, "Sec-Fetch-Site": {"same-origin"},
				"Origin": {s.Server.URL}}).Wants(t, http.StatusOK, "acme").Body
		if words := sitetest.InWords(body); !strings.Contains(words, wants) {
			t.Errorf("the secret finds %q, want %q", words, wants)
		}
	}
	rotate := func(grace string) {
		t.Helper()
		s.PostAnyway("/keys/{acme}/rotate", fields("version", "{acme#}", "grace", grace)).
			Wants(t, http.StatusSeeOther)
	}
	found("acme key")
	rotate("24h")
	found("acme Previous secret. It works until ")
	rotate("24h")
	found("Calls with this secret get 401: a rotation replaced it. dead secret")
	for _, form := range []url.Values{fields("on", "find", "q", secret),
		fields("on", "explain", "key", secret)} {
		at := s.Post("/search", form).Wants(t, http.StatusSeeOther).Header.Get("Location")
		s.Get(at).Wants(t, http.StatusOK, "Calls with this secret get 401: a rotation replaced it.")
	}
	s.Get("/search?q="+secret).Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "Calls with this secret get 401")
}

// Without a script the search form leads to a page with the results, or to the key with
// the id or secret. A secret stays out of addresses and pages.
func TestFindBySecret(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	secret := s.Keys.Secrets["acme"].Reveal()
	for text, want := range map[string]string{
		secret: "/keys/{acme}", s.Keys.IDs["acme"]: "/keys/{acme}", "acme": "/search?q=acme",
		secret[:40]: "/search", "": "/search",
	} {
		at := s.Post("/search", fields("on", "find", "q", text)).Wants(t, http.StatusSeeOther).
			Header.Get("Location")
		if at != want {
			t.Errorf("%.20q redirects to %s, want %s", text, at, want)
		}
	}
	s.Get("/search").Wants(t, http.StatusOK, "No key has this secret.")
	if got := findAll(s, secret); !slices.Equal(got, []string{"acme /keys/{acme}"}) {
		t.Errorf("a secret finds %q, want its key", got)
	}
	if got := findAll(s, secret[:40]); got != nil {
		t.Errorf("a mistyped secret finds %q, want nothing", got)
	}
	at := s.Get("/search?q="+secret).Wants(t, http.StatusSeeOther).Header.Get("Location")
	if at != "/keys/{acme}" {
		t.Errorf("a secret in the address redirects to %s, want its key", at)
	}
}

// Of many keys, a search shows those that begin with the text first, and leads to the rest.
func TestFindMany(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Plan("free", sitetest.Per(10, time.Hour))
	names := []string{"a ship"}
	for i := range 9 {
		names = append(names, fmt.Sprintf("ship %d", i))
	}
	keys.CreateNamed("free", names...)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	got := findAll(s, "ship")
	if len(got) != 6 || got[0] != "ship 0 /keys/{ship 0}" || got[5] != "All keys with “ship” /keys?q=ship" {
		t.Errorf("found %q, want five keys and a link to all", got)
	}
}

// The id of a request, and the reference in the body of its 429, find the denial. What finds
// none says what is kept.
func TestDenialsOfRequest(t *testing.T) {
	s := sitetest.New(t).LoginAs(sitetest.Viewer)
	for _, request := range []string{"one", "two"} {
		call := records.Call{Caller: s.Keys.IDs["acme"], Registered: true, Time: time.Now(),
			Cause: cause.Limit, Limit: request + " per hour", Plan: "free", Request: request,
			Method: "GET", Path: "/" + request}
		s.Keys.Record(slices.Repeat([]records.Call{call}, 57)...)
		reference := records.ReferenceOf(&call).String()
		got := s.Get("/denials?request="+reference).Wants(t, http.StatusOK)
		if words := sitetest.InWords(got.Body); !strings.Contains(words, "GET /"+request) ||
			!strings.Contains(words, "57 calls in this minute, the ids of 20") {
			t.Errorf("the reference of %s leads to %s", request, words)
		}
		if found := findAll(s, reference); len(found) == 0 ||
			!strings.HasPrefix(found[0], "acme: denied by "+request+" per hour, ") {
			t.Errorf("the search finds %q", found)
		}
	}
	s.Get("/denials?request=none").Wants(t, http.StatusOK, "No denial found", "first 20 calls")
	words := sitetest.InWords(s.Get("/denials?request=two").Wants(t, http.StatusOK,
		`aria-label="Remove Request: two"`, `name="request" value="two"`).Body)
	if !strings.Contains(words, "GET /two") || strings.Contains(words, "GET /one") {
		t.Errorf("want the denial of request two alone in\n%s", words)
	}
	got := findAll(s, "0b2a7d6c-3b52-4d7e-9f11-5a5f0c1d2e3f")
	if !strings.HasPrefix(got[0], "No denial is known") {
		t.Errorf("the palette says of an unknown request %q", got)
	}
	denyAt(s, "acme", time.Now(), sampleDenial("10 per 10 seconds"))
	if got := findAll(s, sampleDenial("").Request); !strings.HasPrefix(got[0],
		"acme: denied by 10 per 10 seconds, 2") {
		t.Errorf("the palette says of a denied request %q", got)
	}
	s.Get("/denials?request="+strings.Repeat("x", 201)).Wants(t, http.StatusUnprocessableEntity,
		"at most 200 characters")
}
