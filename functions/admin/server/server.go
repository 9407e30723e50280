// Package server is the admin function's web server, one http.Handler. It finds a
// request's actor, refuses what the actor may not do, and passes the rest to the pages
// and the JSON API. It logs people in and reports the function's health. The main package
// imports it; pages and API do not know it.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/oidc"
	"tidegate/functions/admin/auth/password"
	"tidegate/functions/admin/auth/seal"
	"tidegate/functions/admin/auth/throttle"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/records"
	"tidegate/internal/store"
)

// Config has the dashboard's address and users.
type Config struct {
	// BasePath is the prefix of the dashboard's path in browsers, such as /prod behind a
	// stage of API Gateway; empty for none. Requests may arrive with or without it, since
	// some gateways remove it.
	BasePath string
	// PublicURL is the dashboard's address in browsers, including the base path, without
	// a slash at the end. Only a Provider needs it.
	PublicURL string
	// Users log in with a password.
	Users []password.User
	// Provider logs people in too; nil for none.
	Provider *oidc.Provider
	// SessionLifetime is the time from log-in to the end of a session, used or not. The
	// session store ends idle sessions.
	SessionLifetime time.Duration
	// OwnerView shows a key to the holder of its secret, on OwnerPath.
	OwnerView bool
	// Proxies are those whose reports of client addresses count, for Explain.
	Proxies proxies.Trusted
	// Stage is the deployment's name on every page, such as prod; empty for none. Release
	// is the deployed release.
	Stage, Release string
	// ExampleURL is the address of example calls; empty if none is known.
	ExampleURL string
}

// Services are the dependencies of the server, the pages and the API. Every field is
// required.
type Services struct {
	Keys      *app.Registry
	Checker   *enforce.Checker // for Explain, and for backends that reserve and settle costs
	Records   *records.Reader
	Crossings *crossing.Store
	Sessions  SessionStore
	Tokens    *token.Store
	Logins    *throttle.Throttle
	Owners    *throttle.Owners
	// Pepper gives the key of seal.Sealer.
	Pepper apikey.Pepper
	// Ready returns nil if checks can work with Valkey.
	Ready func(context.Context) error
	// Eviction is Valkey's maxmemory-policy if it may evict keys and policies; else empty.
	Eviction string
	// StoreVersion returns Valkey's name and version.
	StoreVersion func(context.Context) (string, error)
	Log          *slog.Logger
}

// server handles every request. It finds the actor, and passes the request to a page or
// the API.
type server struct {
	*page.Renderer
	Config
	Services
	users *password.Users
	pages *router
	// api is built by the first request for it: describing every operation takes
	// milliseconds, which would delay the first page after a cold start.
	api         func() (*router, error)
	unavailable bool // no connection to Valkey; only Ready and Log are set
}

var basePattern = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// New returns the server. The handler is safe for concurrent use.
func New(config Config, services Services) (http.Handler, error) {
	return newServer(config, services, false).start()
}

// NewUnavailable returns the server for the time without a connection to Valkey. It
// serves its files, its health, and for every other address an error page.
func NewUnavailable(config Config, log *slog.Logger) (http.Handler, error) {
	unready := func(context.Context) error { return errors.New("not connected to the store") }
	return newServer(config, Services{Ready: unready, Log: log}, true).start()
}

func newServer(config Config, services Services, unavailable bool) *server {
	s := &server{Config: config, Services: services, unavailable: unavailable}
	s.Renderer = page.New(config.BasePath, config.Stage, services.Log, s.newSessions())
	s.Resumes = s.canResume
	s.Notes = notesOf
	if services.Keys != nil {
		s.Warnings = (&banner{status: services.Keys.LogStatus}).warnings
	}
	return s
}

func (s *server) start() (http.Handler, error) {
	err := s.validate()
	if err != nil {
		return nil, err
	}
	if !s.unavailable {
		s.Sealer = seal.New(s.Pepper)
	}
	if s.users, err = password.NewUsers(s.Users); err != nil {
		return nil, err
	}
	if s.pages, err = s.newRouter(s.routes()); err != nil {
		return nil, err
	}
	s.api = sync.OnceValues(func() (*router, error) { return s.newRouter(s.apiRoutes()) })
	return s.middleware(), nil
}

func (c Config) validate() error {
	if err := CheckBasePath(c.BasePath); err != nil {
		return fmt.Errorf("base path %w", err)
	}
	if len(c.Users) == 0 && c.Provider == nil {
		return errors.New("nobody could log in: there is no user and no provider")
	}
	if c.SessionLifetime <= 0 {
		return errors.New("session lifetime must be positive")
	}
	return nil
}

// CheckBasePath returns what is wrong with a Config's BasePath.
func CheckBasePath(p string) error {
	if !basePattern.MatchString(p) {
		return fmt.Errorf("is %q: it must look like /prod, with a slash before each part and none at the "+
			"end, or be empty", p)
	}
	return nil
}

const healthDeadline = 500 * time.Millisecond

// health reports whether checks can work with Valkey, within healthDeadline, whatever is
// slow. It changes nothing. It reveals the kind of refusal and nothing else, since anybody
// may request it.
func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), healthDeadline)
	defer cancel()
	status, text := http.StatusOK, "alive\nstore ready\n"
	if s.Eviction != "" {
		text += "eviction " + s.Eviction + "\n"
	}
	ready := make(chan error, 1)
	go func() { ready <- s.Ready(ctx) }()
	var err error
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.Log.Warn("health", "cause", err)
		status, text = http.StatusServiceUnavailable, "alive\nstore "+cmp.Or(store.Refusal(err), "away")+"\n"
		if errors.Is(err, policy.ErrMissing) {
			text = "alive\nstore ready\npolicies missing\n"
		}
		w.Header().Set("Retry-After", page.StoreRetryAfter)
	}
	writeText(w, status, text)
	return nil
}

// alive reports that this function runs, whatever the state of Valkey.
func (s *server) alive(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, "alive\n")
	return nil
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // fails only after the client disconnected
}
