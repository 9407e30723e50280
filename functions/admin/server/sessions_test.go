package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/server"
	"tidegate/internal/testing/sitetest"
)

func otherHash(t *testing.T) password.Hash {
	t.Helper()
	text, err := argon2id.CreateHash(sitetest.Password, &argon2id.Params{
		Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32,
	})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := password.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// A session ends when its user, or the user's role or password, changes in the
// configuration. Changes of other users do not end it.
func TestSessionEndsWithItsUser(t *testing.T) {
	vic := func(c *server.Config) *password.User { return &c.Users[1] }
	for name, row := range map[string]struct {
		change func(*server.Config)
		ends   bool
	}{
		"removed":          {func(c *server.Config) { c.Users = c.Users[:1] }, true},
		"renamed":          {func(c *server.Config) { vic(c).Name = "victoria" }, true},
		"promoted":         {func(c *server.Config) { vic(c).Role = auth.Editor }, true},
		"password changed": {func(c *server.Config) { vic(c).Hash = otherHash(t) }, true},
		"another removed":  {func(c *server.Config) { c.Users = c.Users[1:] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.New(t).LoginAs(sitetest.Viewer)
			s.Get("/keys").Wants(t, http.StatusOK)
			before := s.Cookie().Value
			s.Config.Users = sitetest.Users()
			s.Reconfigure(row.change)
			if !row.ends {
				s.Get("/keys").Wants(t, http.StatusOK)
				return
			}
			s.WantsLogin("/keys")
			if name == "promoted" {
				s.LoginAs(sitetest.Viewer)
				if s.Cookie().Value == before {
					t.Error("the session id is the same after the change of the role")
				}
				s.Get("/keys/{acme}/limits").Wants(t, http.StatusOK)
			}
		})
	}
}

// Requests renew a session, and an idle session ends.
func TestIdle(t *testing.T) {
	s := sitetest.New(t, func(s *sitetest.Site) { s.Config.SessionLifetime = 12 * time.Hour }).Login()
	for range 3 {
		s.Store.FastForward(sitetest.Idle - time.Second)
		s.Get("/keys").Wants(t, http.StatusOK)
	}
	s.Store.FastForward(sitetest.Idle + time.Second)
	s.WantsLogin("/keys")
}

// Live refreshes do not renew a session.
func TestIdleTab(t *testing.T) {
	s := sitetest.New(t, func(s *sitetest.Site) { s.Config.SessionLifetime = 12 * time.Hour }).Login()
	refresh := func() sitetest.Reply {
		return s.Do(http.MethodGet, "/keys", nil, http.Header{"Hx-Request": {"true"}})
	}
	for range 3 {
		s.Store.FastForward(sitetest.Idle/4 - time.Second)
		refresh().Wants(t, http.StatusOK)
	}
	s.Store.FastForward(sitetest.Idle / 4)
	refresh().Wants(t, http.StatusOK)
	s.Store.FastForward(5 * time.Second)
	refresh().Wants(t, http.StatusUnauthorized)
	s.WantsLogin("/keys")
}

// Log out everywhere ends all sessions of the user, and no session of other users.
func TestLogOutEverywhere(t *testing.T) {
	s := sitetest.New(t).Login()
	here := s.Client
	s.Client = s.NewClient()
	s.Login()
	there := s.Client
	s.Client = s.NewClient()
	s.LoginAs(sitetest.Viewer)
	viewer := s.Client

	s.Client = here
	s.Get("/settings").Wants(t, http.StatusOK, "this session", "Log out everywhere")
	if got := s.Post("/settings/sessions/end", nil).Wants(t,
		http.StatusSeeOther); got.Header.Get("Location") != "/login" {
		t.Errorf("got redirect to %q, want /login", got.Header.Get("Location"))
	}
	s.WantsLogin("/keys")
	s.Client = there
	s.WantsLogin("/keys")
	s.Client = viewer
	s.Get("/keys").Wants(t, http.StatusOK)
}

// The settings page lists the user's own sessions and marks the current one.
func TestSessionList(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Client = s.NewClient()
	s.LoginAs(sitetest.Viewer)
	s.Client = s.NewClient()
	req := http.Header{"Sec-Fetch-Site": {"same-origin"}}
	req["User-Agent"] = []string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 <script>"}
	s.Do(http.MethodPost, "/login", loginForm(sitetest.User, sitetest.Password),
		req).Wants(t, http.StatusSeeOther)
	body := s.Get("/settings").Wants(t, http.StatusOK, "Firefox on Linux", "another program").Body
	if strings.Count(body, "this session") != 1 || strings.Contains(body, "&lt;script") {
		t.Errorf("got sessions\n%s\nwant one marked, without the agent's markup", body)
	}
	if n := strings.Count(body, `data-label="Since"`); n != 2 {
		t.Errorf("got %d sessions, want the two of this user", n)
	}
}

// Log-in, requests and log-out work on the real session store.
func TestSessionsInTheStore(t *testing.T) {
	s := sitetest.New(t).Login()
	old := s.Cookie()
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "acme")
	s.Get("/keys?q=ac").Wants(t, http.StatusOK, "acme")
	s.Get("/keys?after=nonsense!").Wants(t, http.StatusBadRequest)
	s.Post("/logout", nil).Wants(t, http.StatusSeeOther)
	s.SetCookie(old.Name, old.Value)
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// hangingStore is a session store that fails as one that hangs does: a context with a
// deadline times out.
type hangingStore struct{ *session.Store }

func (s hangingStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	if _, ok := ctx.Deadline(); !ok {
		return s.Store.FindCtx(ctx, token)
	}
	return nil, false, errors.Join(context.DeadlineExceeded, errors.New("the request has a deadline"))
}

// A request has a deadline for a session store that hangs.
func TestStoreHangs(t *testing.T) {
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		store, _ := services.Sessions.(*session.Store)
		services.Sessions = hangingStore{store}
	}))
	s.SetCookie("__Host-tidegate", "x")
	s.Get("/keys").Wants(t, http.StatusServiceUnavailable)
}

func TestBrowserName(t *testing.T) {
	for agent, want := range map[string]string{
		"": "another program",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.4 Safari/605.1.15": "Safari on macOS",
		"Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":   "Edge on Windows",
		"Mozilla/5.0 (Linux; Android 10; K) Chrome/140.0.0.0 Mobile Safari/537.36":     "Chrome on Android",
		"curl/8.5.0": "curl",
	} {
		if got := server.BrowserName(agent); got != want {
			t.Errorf("%s: got %q, want %q", agent, got, want)
		}
	}
}
