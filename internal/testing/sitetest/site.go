// Package sitetest starts the whole admin site for a test, with its own Valkey: the
// server with pages and API, and a client or a Chromium tab. Only tests of the server and
// of the pages import it.
package sitetest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/alicebob/miniredis/v2"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/store"
	"tidegate/internal/testing/waiting"
)

// User is an editor and Viewer a viewer, both with the same password. Idle is their
// sessions' idle timeout.
const (
	User     = "ada"
	Viewer   = "vic"
	Password = "correct horse battery staple"
	Idle     = 30 * time.Minute
)

// testHash hashes the password once, as cheaply as argon2id allows.
var testHash = sync.OnceValue(func() password.Hash {
	hash, err := argon2id.CreateHash(Password, &argon2id.Params{
		Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32,
	})
	if err != nil {
		panic(err)
	}
	p, err := password.ParseHash(hash)
	if err != nil {
		panic(err)
	}
	return p
})

// Site is a dashboard for one test, with a client.
type Site struct {
	T        *testing.T
	Server   *httptest.Server
	Client   *http.Client
	Keys     *Registry
	Base     string
	Address  string // of the server that browsers use, without the base path
	Config   server.Config
	Services server.Services
	// Store has the sessions and the throttles' counts. Its clock is fixed
	// until a test sets it.
	Store  *miniredis.Miniredis
	Tokens *token.Store
}

// Option changes a site before it starts.
type Option func(*Site)

// WithBase puts the site below a path.
func WithBase(base string) Option { return func(s *Site) { s.Config.BasePath = base } }

// WithKeys sets the site's registry.
func WithKeys(k *Registry) Option { return func(s *Site) { s.Keys = k } }

// WithServices changes the site's services.
func WithServices(f func(*server.Services)) Option {
	return func(s *Site) { f(&s.Services) }
}

// New starts a site. Without WithKeys it has the keys acme and bolt.
func New(t *testing.T, options ...Option) *Site {
	t.Helper()
	s := &Site{T: t}
	s.Config = server.Config{Users: Users(), SessionLifetime: time.Hour, OwnerView: true}
	s.Services = server.Services{
		Pepper:       Pepper,
		Ready:        func(context.Context) error { return nil },
		StoreVersion: func(context.Context) (string, error) { return "teststore 1.2.3", nil },
		Log:          slog.New(slog.DiscardHandler),
	}
	s.openStore()
	// TLS, because the session cookie is Secure.
	s.Server = httptest.NewTLSServer(nil)
	t.Cleanup(s.Server.Close)
	s.Address = s.Server.URL
	for _, o := range options {
		o(s)
	}
	if s.Keys == nil {
		s.Keys = NewRegistry(t, "acme", "bolt")
	}
	s.Tokens = token.NewStore(s.Keys.Store, s.Keys.Client, Pepper)
	s.Services.Tokens = s.Tokens
	s.Services.Crossings = crossing.NewStore(s.Keys.Client, s.Services.Log)
	s.Services.Records = records.NewReader(s.Keys.Client, time.Now)
	s.Services.Checker = enforce.NewChecker(s.Keys.Client, Pepper)
	s.Services.Keys = app.NewRegistry(s.Keys.Store, s.Services.Records, s.Services.Checker)
	handler, err := server.New(s.Config, s.Services)
	if err != nil {
		t.Fatal(err)
	}
	s.Server.Config.Handler = handler
	s.Base = s.Server.URL + s.Config.BasePath
	s.Client = s.NewClient()
	return s
}

// Users returns an editor, ada, and a viewer, vic, with the same password.
func Users() []password.User {
	return []password.User{
		{Name: User, Role: auth.Editor, Hash: testHash()},
		{Name: Viewer, Role: auth.Viewer, Hash: testHash()},
	}
}

// openStore opens the services' Valkey.
func (s *Site) openStore() {
	s.T.Helper()
	s.Store = miniredis.RunT(s.T)
	client, err := store.Open(s.T.Context(), "valkey://"+s.Store.Addr(), store.Options{
		Dial: waiting.Timeout, Write: waiting.Timeout, Pooled: true,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(client.Close)
	s.Services.Sessions = session.NewStore(client, Idle)
	s.Services.Logins, s.Services.Owners = throttle.New(client), throttle.NewOwners(client)
}

// NewClient returns a client with its own cookies that follows no redirect.
func (s *Site) NewClient() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return &http.Client{
		Jar:           jar,
		Transport:     s.Server.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Login logs the client in as an editor.
func (s *Site) Login() *Site { s.T.Helper(); return s.LoginAs(User) }

// LoginAs logs the client in as a user.
func (s *Site) LoginAs(user string) *Site {
	s.T.Helper()
	s.Post("/login", url.Values{"user": {user}, "password": {Password}}).Wants(s.T, http.StatusSeeOther)
	return s
}

// Cookie returns the client's session cookie, or nil.
func (s *Site) Cookie() *http.Cookie {
	s.T.Helper()
	name := "__Host-tidegate"
	if s.Config.BasePath != "" {
		name = "__Secure-tidegate"
	}
	return s.CookieNamed(name)
}

// CookieNamed returns the client's cookie of this name, or nil.
func (s *Site) CookieNamed(name string) *http.Cookie {
	s.T.Helper()
	u, err := url.Parse(s.Base + "/")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, c := range s.Client.Jar.Cookies(u) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// SetCookie sets a cookie of the client.
func (s *Site) SetCookie(name, value string) {
	s.T.Helper()
	u, err := url.Parse(s.Base + "/")
	if err != nil {
		s.T.Fatal(err)
	}
	s.Client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
}

// NonceInPage matches nonces.
var (
	NonceInPage   = regexp.MustCompile(`nonce="[^"]*"`)
	addressInPage = regexp.MustCompile(`(?:href|src|action|hx-get)="([^"]*)"`)
)

// NewToken creates a machine token and returns its text.
func (s *Site) NewToken(scope token.Scope) string {
	s.T.Helper()
	_, secret, err := s.Tokens.Create(s.T.Context(), token.New{
		Name: "t", Scope: scope, Expires: time.Now().Add(time.Hour), By: ByTest.By,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return secret.Reveal()
}

// Set returns the stored policy set.
func (s *Site) Set() *policy.Set {
	s.T.Helper()
	set, err := s.Keys.Set(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return set
}

// Reconfigure restarts the site with another configuration and the same Valkey.
func (s *Site) Reconfigure(change func(*server.Config)) {
	s.T.Helper()
	changed := s.Config
	change(&changed)
	after, err := server.New(changed, s.Services)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Server.Config.Handler = after
}
