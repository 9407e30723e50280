// Package dashboard is the web application that shows who uses how much of which limit, and changes limits. It is one http.Handler: routes.go lists
// what it serves and who may ask for it, and every page is a file.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/alexedwards/scs/v2"

	"tidegate/functions/admin/oidc"
	"tidegate/functions/admin/password"
	"tidegate/functions/admin/throttle"
	"tidegate/functions/admin/token"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/usage"
	"tidegate/web/static"
)

// Config says how the dashboard is reached and who may use it.
type Config struct {
	// BasePath is the prefix of the path under which browsers see the dashboard, such as /prod behind a stage of API Gateway. Empty for none.
	// Requests may arrive with or without it: some gateways cut it off.
	BasePath string
	// PublicURL is the address of the dashboard in browsers, base path included, without a slash at the end. Only a Provider needs it.
	PublicURL string
	// Users log in with a password.
	Users []password.User
	// Provider logs people in too; nil for none.
	Provider *oidc.Provider
	// SessionLifetime ends a session that long after its login, used or not. The session store ends idle ones.
	SessionLifetime time.Duration
	// Stage names the deployment on every page, such as prod; empty for none. Release names what is deployed.
	Stage, Release string
}

// TokenStore is what the dashboard needs of the machine tokens. *token.Store is one.
type TokenStore interface {
	Authenticate(ctx context.Context, text string) (token.Token, error)
	Create(ctx context.Context, n token.New) (token.Token, apikey.Secret, error)
	List(ctx context.Context) ([]token.Token, error)
	Revoke(ctx context.Context, id string, by audit.Actor) error
}

// Services are the parts of the system that the dashboard works with. Every field is required.
type Services struct {
	Keys     *policy.Store
	Checker  *policy.Checker // for backends that reserve and settle costs
	Usage    *usage.Reader
	Sessions SessionStore
	Tokens   TokenStore
	Logins   *throttle.Throttle
	Bundle   static.Bundle
	// Pepper is what the key is derived from that jobs are sealed with.
	Pepper apikey.Pepper
	// Ready returns nil if the store answers.
	Ready func(context.Context) error
	// StoreVersion names the store's software and its version.
	StoreVersion func(context.Context) (string, error)
	Log          *slog.Logger
}

type dashboard struct {
	Config
	Services
	users    *password.Users
	sessions *scs.SessionManager
	known    map[string]route // by the patterns registered with the mux
	mux      *http.ServeMux
	seal     jobSeal
	away     bool // there is no store, and no service but Bundle, Ready and Log
	told     toldChanges
}

var basePattern = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// New returns the dashboard. The handler is safe for concurrent use.
func New(config Config, services Services) (http.Handler, error) {
	return start(&dashboard{Config: config, Services: services})
}

// NewAway returns what stands in for the dashboard while there is no connection to the store: its files and its health, and for the rest a page that
// says so.
func NewAway(config Config, bundle static.Bundle, log *slog.Logger) (http.Handler, error) {
	unready := func(context.Context) error { return errors.New("not connected to the store") }
	return start(&dashboard{Config: config, Services: Services{Bundle: bundle, Ready: unready, Log: log}, away: true})
}

func start(d *dashboard) (http.Handler, error) {
	err := d.validate()
	if err != nil {
		return nil, err
	}
	if d.users, err = password.NewUsers(d.Users); err != nil {
		return nil, err
	}
	if d.mux, d.known, err = d.newMux(d.routes()); err != nil {
		return nil, err
	}
	d.sessions, d.seal = d.newSessions(), newJobSeal(d.Pepper)
	return d.chain(), nil
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

// CheckBasePath reports what is wrong with a Config's BasePath.
func CheckBasePath(p string) error {
	if !basePattern.MatchString(p) {
		return fmt.Errorf("is %q: it must look like /prod, with a slash before each part and none at the end, or be empty", p)
	}
	return nil
}

// path returns the address that browsers use for a path of the dashboard.
func (d *dashboard) path(p string) string { return d.BasePath + p }
