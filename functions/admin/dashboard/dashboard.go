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

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/static"
)

// Config says how the dashboard is reached and who may use it.
type Config struct {
	// BasePath is the prefix of the path under which browsers see the dashboard, such as /prod behind a stage of API Gateway. Empty for none.
	// Requests may arrive with or without it: some gateways cut it off.
	BasePath string
	// User and Password are the only account. It may edit.
	User     string
	Password Password
	// SessionLifetime ends a session that long after its login, used or not. The session store ends idle ones.
	SessionLifetime time.Duration
}

// KeyStore is what the dashboard needs of the registry of keys. *policy.Store is one.
type KeyStore interface {
	Set(ctx context.Context) (*policy.Set, error)
	List(ctx context.Context, set *policy.Set, q policy.Query) (policy.Page, error)
	Get(ctx context.Context, id string) (policy.Key, error)
	Usage(ctx context.Context, set *policy.Set, keys []policy.Key) ([]limiter.Decision, error)
	SetOverride(ctx context.Context, id string, version int64, o *policy.Override, edit policy.Edit) (policy.Key, error)
}

// Services are the parts of the system that the dashboard works with. Every field is required.
type Services struct {
	Keys     KeyStore
	Sessions scs.Store
	Bundle   static.Bundle
	// Ready returns nil if the store answers.
	Ready func(context.Context) error
	Log   *slog.Logger
}

type dashboard struct {
	Config
	Services
	sessions *scs.SessionManager
	roles    map[string]role // of every pattern registered with the mux
	mux      *http.ServeMux
}

var basePattern = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// New returns the dashboard. The handler is safe for concurrent use.
func New(config Config, services Services) (http.Handler, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	d := &dashboard{Config: config, Services: services}
	d.sessions = d.newSessions()
	d.mux, d.roles = d.newMux()
	return d.chain(), nil
}

func (c Config) validate() error {
	if err := CheckBasePath(c.BasePath); err != nil {
		return fmt.Errorf("base path %w", err)
	}
	if c.User == "" || c.Password == (Password{}) {
		return errors.New("no account: user or password is empty")
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
