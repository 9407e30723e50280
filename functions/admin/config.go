package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"tidegate/functions/admin/access"
	"tidegate/functions/admin/dashboard"
	"tidegate/functions/admin/password"
	"tidegate/internal/apikey"
	"tidegate/internal/environ"
	"tidegate/internal/setting"
	"tidegate/internal/store"
)

// logLevel is the level of the log; LOG_LEVEL sets it.
var logLevel slog.LevelVar

// config is the function's environment.
type config struct {
	ValkeyURL         string        `env:"VALKEY_URL"`
	KeyPepper         string        `env:"KEY_PEPPER"`
	AdminUser         string        `env:"ADMIN_USER"`
	AdminPassword     string        `env:"ADMIN_PASSWORD"`
	AdminPasswordHash string        `env:"ADMIN_PASSWORD_HASH"`
	AdminUsers        string        `env:"ADMIN_USERS"`
	AdminURL          string        `env:"ADMIN_URL"`
	BasePath          string        `env:"BASE_PATH"`
	SessionIdle       time.Duration `env:"SESSION_IDLE" envDefault:"30m"`
	SessionLifetime   time.Duration `env:"SESSION_LIFETIME" envDefault:"12h"`
	Stage             string        `env:"STAGE"`
	Release           string        `env:"RELEASE"`
	LogLevel          slog.Level    `env:"LOG_LEVEL" envDefault:"INFO"`
	OIDC              oidcConfig

	pepper apikey.Pepper
	users  []password.User
}

// readConfig reads and checks the environment, NAME=value strings. Its error names every variable that is wrong and says what to do; it
// repeats no secret.
func readConfig(variables []string) (config, error) {
	c, err := environ.Read[config](variables)
	if err != nil {
		return config{}, err
	}
	logLevel.Set(c.LogLevel)
	return c, errors.Join(c.hashPassword(), c.check())
}

const makeHash = `make one with argon2 "$(openssl rand -hex 8)" -id -m 16 -t 3 -p 1 -e, which reads the password from its input`

// problems collects what is wrong with variables.
type problems []error

func (p *problems) add(variable, advice string) {
	*p = append(*p, fmt.Errorf("%s %s", variable, advice))
}

func (c *config) check() error {
	var wrong problems
	if c.ValkeyURL == "" {
		wrong.add("VALKEY_URL", "is not set: give the store's address, such as valkey://127.0.0.1:6379")
	} else if err := store.CheckURL(c.ValkeyURL); err != nil {
		wrong.add("VALKEY_URL", "cannot be used: "+err.Error())
	}
	var err error
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		wrong.add("KEY_PEPPER", "cannot be used: give the 32 or more random characters that functions/check has")
	}
	if err := dashboard.CheckBasePath(c.BasePath); err != nil {
		wrong.add("BASE_PATH", err.Error())
	}
	if err := setting.SessionIdle.Check(c.SessionIdle); err != nil {
		wrong.add("SESSION_IDLE", err.Error())
	}
	if err := setting.SessionLifetime.Check(c.SessionLifetime); err != nil {
		wrong.add("SESSION_LIFETIME", err.Error())
	}
	if c.SessionLifetime < c.SessionIdle {
		wrong.add("SESSION_LIFETIME", "is shorter than SESSION_IDLE: give at least as much")
	}
	c.checkUsers(&wrong)
	c.OIDC.check(&wrong)
	if c.OIDC.Issuer != "" {
		c.checkAddress(&wrong)
	}
	return errors.Join(wrong...)
}

// checkUsers needs a first user, unless people log in elsewhere or the list has all of them.
func (c *config) checkUsers(wrong *problems) {
	if c.AdminUser != "" || c.AdminPasswordHash != "" || c.AdminUsers == "" && c.OIDC.Issuer == "" {
		c.checkFirstUser(wrong)
	}
	more, err := password.ParseUsers(c.AdminUsers)
	if err != nil {
		wrong.add("ADMIN_USERS", err.Error()+": write name:viewer:hash or name:editor:hash, apart by spaces; "+makeHash)
		return
	}
	c.users = append(c.users, more...)
	if _, err := password.NewUsers(c.users); err != nil && len(*wrong) == 0 {
		wrong.add("ADMIN_USERS", "and ADMIN_USER cannot be used together: "+err.Error())
	}
}

func (c *config) checkFirstUser(wrong *problems) {
	hash, err := password.ParseHash(c.AdminPasswordHash)
	if err != nil {
		wrong.add("ADMIN_PASSWORD_HASH", "is no argon2id hash: "+makeHash)
	} else if hash.Weak() {
		wrong.add("ADMIN_PASSWORD_HASH", "takes less than 19 MiB to compute: "+makeHash)
	}
	first := password.User{Name: c.AdminUser, Role: access.Editor, Hash: hash}
	if c.AdminUser == "" {
		wrong.add("ADMIN_USER", "is not set: give the name to log in with")
	} else if _, nameErr := password.NewUsers([]password.User{first}); nameErr != nil && err == nil {
		wrong.add("ADMIN_USER", "cannot be used: "+nameErr.Error())
	}
	c.users = []password.User{first}
}

// checkAddress wants the address that browsers see, since what a request says of its host is not to be trusted.
func (c *config) checkAddress(wrong *problems) {
	if err := checkURL(c.AdminURL); err != nil {
		wrong.add("ADMIN_URL", err.Error()+": with OIDC_ISSUER give the dashboard's address in browsers, such as https://admin.example.com")
		return
	}
	if u, err := url.Parse(c.AdminURL); err != nil || u.Path != c.BasePath {
		wrong.add("ADMIN_URL", "must end in BASE_PATH, without a slash after it")
	}
}

func (c *config) dashboard() (dashboard.Config, error) {
	d := dashboard.Config{
		BasePath: c.BasePath, PublicURL: c.AdminURL, Users: c.users, SessionLifetime: c.SessionLifetime, Stage: c.Stage, Release: c.Release,
	}
	var err error
	d.Provider, err = c.OIDC.provider(c.AdminURL, c.pepper)
	return d, err
}
