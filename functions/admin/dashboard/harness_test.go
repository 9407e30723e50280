package dashboard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/alicebob/miniredis/v2"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/internal/enforce"
	"tidegate/internal/store"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
	"tidegate/web/static"
)

const (
	testUser   = "ada"
	testViewer = "vic"
	testSecret = "correct horse battery staple"
	testIdle   = 30 * time.Minute
)

// testHash is hashed as cheaply as argon2id allows, once.
var testHash = sync.OnceValue(func() password.Hash {
	hash, err := argon2id.CreateHash(testSecret, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		panic(err)
	}
	p, err := password.ParseHash(hash)
	if err != nil {
		panic(err)
	}
	return p
})

// site is a dashboard that runs for one test, and a browser's worth of client.
type site struct {
	t       *testing.T
	server  *httptest.Server
	client  *http.Client
	keys    *testRegistry
	base    string
	address string // of the server that browsers use, without the base path
	config  Config
	service Services
	// store holds sessions, tokens and what throttles logins. Its time stands until a
	// test moves it.
	store  *miniredis.Miniredis
	tokens *token.Store
}

type option func(*site)

func withBase(base string) option     { return func(s *site) { s.config.BasePath = base } }
func withKeys(k *testRegistry) option { return func(s *site) { s.keys = k } }
func withServices(f func(*Services)) option {
	return func(s *site) { f(&s.service) }
}

func testBundle() static.Bundle {
	return static.Bundle{
		Files: fstest.MapFS{
			"app-1.js": {Data: []byte("//")}, "chart-1.js": {Data: []byte("//")}, "app-1.css": {Data: []byte("/**/")}, "icon-1.svg": {Data: []byte("<svg/>")},
			"manifest.json": {Data: []byte("{}")}, ".placeholder": {Data: []byte("x")},
		},
		Script: "app-1.js", Chart: "chart-1.js", Style: "app-1.css", Icon: "icon-1.svg",
	}
}

func newSite(t *testing.T, options ...option) *site {
	t.Helper()
	s := &site{t: t}
	s.config = Config{Users: testUsers(), SessionLifetime: time.Hour}
	s.service = Services{
		Bundle:       testBundle(),
		Pepper:       testPepper,
		Ready:        func(context.Context) error { return nil },
		StoreVersion: func(context.Context) (string, error) { return "teststore 1.2.3", nil },
		Log:          slog.New(slog.DiscardHandler),
	}
	s.openStore()
	// TLS, because the session cookie is Secure.
	s.server = httptest.NewTLSServer(nil)
	t.Cleanup(s.server.Close)
	s.address = s.server.URL
	for _, o := range options {
		o(s)
	}
	if s.keys == nil {
		s.keys = newRegistry(t, "acme", "bolt")
	}
	s.service.Keys, s.service.Usage = s.keys.Store, usage.NewReader(s.keys.client)
	s.service.Checker = enforce.NewChecker(s.keys.client, testPepper)
	handler, err := New(s.config, s.service)
	if err != nil {
		t.Fatal(err)
	}
	s.server.Config.Handler = handler
	s.base = s.server.URL + s.config.BasePath
	s.client = s.newClient()
	return s
}

// testUsers are an editor, ada, and a viewer, vic, with the same password.
func testUsers() []password.User {
	return []password.User{{Name: testUser, Role: auth.Editor, Hash: testHash()}, {Name: testViewer, Role: auth.Viewer, Hash: testHash()}}
}

// openStore gives the services a store of their own.
func (s *site) openStore() {
	s.t.Helper()
	s.store = miniredis.RunT(s.t)
	client, err := store.Open(s.t.Context(), "valkey://"+s.store.Addr(), store.Options{Dial: waiting.Patience, Write: waiting.Patience, Pooled: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	s.tokens = token.NewStore(client, testPepper)
	s.service.Tokens, s.service.Sessions = s.tokens, session.NewStore(client, testIdle)
	if s.service.Logins, err = throttle.New(client); err != nil {
		s.t.Fatal(err)
	}
}

// newClient returns a client with cookies of its own that follows no redirect.
func (s *site) newClient() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &http.Client{
		Jar:           jar,
		Transport:     s.server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type reply struct {
	*http.Response
	body string
}

// do makes a request. The name of a key in braces stands for its id, in the path as in
// the reply.
func (s *site) do(method, path string, form url.Values, header http.Header) reply {
	s.t.Helper()
	if form != nil && header.Get("Content-Type") == "" {
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return s.doText(method, path, form.Encode(), header)
}

// doText makes a request with a body of any kind.
func (s *site) doText(method, path, body string, header http.Header) reply {
	s.t.Helper()
	req, err := http.NewRequest(method, s.base+s.keys.named(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if to := res.Header.Get("Location"); to != "" {
		res.Header.Set("Location", s.keys.naming(to))
	}
	return reply{res, s.keys.naming(string(text))}
}

func (s *site) get(path string) reply { s.t.Helper(); return s.do(http.MethodGet, path, nil, nil) }

// refresh asks as the live refresh does.
func (s *site) refresh(path string) reply {
	s.t.Helper()
	return s.do(http.MethodGet, path, nil, http.Header{"Hx-Request": {"true"}})
}

// post sends a form as a browser does from a page of this site.
func (s *site) post(path string, form url.Values) reply {
	s.t.Helper()
	return s.do(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {s.server.URL}})
}

// login makes the client an editor's.
func (s *site) login() *site { s.t.Helper(); return s.loginAs(testUser) }

func (s *site) loginAs(user string) *site {
	s.t.Helper()
	s.post("/login", url.Values{"user": {user}, "password": {testSecret}}).wants(s.t, http.StatusSeeOther)
	return s
}

// cookie returns the session cookie that the client holds; nil if none.
func (s *site) cookie() *http.Cookie {
	s.t.Helper()
	return s.cookieNamed((&server{Config: s.config}).cookieName(""))
}

func (s *site) cookieNamed(name string) *http.Cookie {
	s.t.Helper()
	u, err := url.Parse(s.base + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range s.client.Jar.Cookies(u) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// setCookie makes the client hold a cookie.
func (s *site) setCookie(name, value string) {
	s.t.Helper()
	u, err := url.Parse(s.base + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	s.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
}

func (r reply) wants(t *testing.T, status int, texts ...string) reply {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d\n%s", r.Request.Method, r.Request.URL, r.StatusCode, status, r.body)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("%s %s: no %q in\n%s", r.Request.Method, r.Request.URL, text, r.body)
		}
	}
	return r
}

// limitsForm builds what a browser sends from the limits page; each row is requests,
// window, unit, algorithm.
func limitsOf(version int, rows ...[4]string) url.Values {
	v := url.Values{"version": {fmt.Sprint(version)}, "action": {"save"}, "mode": {"enforce"}, "lasts": {"never"}, "reason": {"test"}}
	for i, row := range rows {
		for j, name := range []string{"requests", "window", "unit", "algorithm"} {
			v.Set(fmt.Sprintf("limits[%d].%s", i, name), row[j])
		}
	}
	return v
}

// with sets fields of a form, given as name and text in turn.
func with(form url.Values, fields ...string) url.Values {
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

var (
	nonceInPage   = regexp.MustCompile(`nonce="[^"]*"`)
	addressInPage = regexp.MustCompile(`(?:href|src|action|hx-get)="([^"]*)"`)
)

// addressesIn lists everything that a page links to, loads or sends to.
func addressesIn(page string) []string {
	var all []string
	for _, m := range addressInPage.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}
