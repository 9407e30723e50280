package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidegate/functions/admin/dashboard"
	"tidegate/internal/apikey"
	"tidegate/internal/environ"
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
	BasePath          string        `env:"BASE_PATH"`
	SessionIdle       time.Duration `env:"SESSION_IDLE" envDefault:"30m"`
	SessionLifetime   time.Duration `env:"SESSION_LIFETIME" envDefault:"12h"`
	LogLevel          slog.Level    `env:"LOG_LEVEL" envDefault:"INFO"`

	pepper   apikey.Pepper
	password dashboard.Password
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

func (c *config) check() error {
	var errs []error
	wrong := func(variable, advice string) { errs = append(errs, fmt.Errorf("%s %s", variable, advice)) }
	if c.ValkeyURL == "" {
		wrong("VALKEY_URL", "is not set: give the store's address, such as valkey://127.0.0.1:6379")
	} else if err := store.CheckURL(c.ValkeyURL); err != nil {
		wrong("VALKEY_URL", "cannot be used: "+err.Error())
	}
	var err error
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		wrong("KEY_PEPPER", "cannot be used: give the 32 or more random characters that functions/check has")
	}
	if c.AdminUser == "" {
		wrong("ADMIN_USER", "is not set: give the name to log in with")
	}
	if c.password, err = dashboard.ParsePassword(c.AdminPasswordHash); err != nil {
		wrong("ADMIN_PASSWORD_HASH", "is no argon2id hash: "+makeHash)
	} else if c.password.Weak() {
		wrong("ADMIN_PASSWORD_HASH", "takes less than 19 MiB to compute: "+makeHash)
	}
	if err := dashboard.CheckBasePath(c.BasePath); err != nil {
		wrong("BASE_PATH", err.Error())
	}
	if c.SessionIdle < time.Minute {
		wrong("SESSION_IDLE", "is too short: give at least 1m")
	}
	if c.SessionLifetime < c.SessionIdle {
		wrong("SESSION_LIFETIME", "is shorter than SESSION_IDLE: give at least as much")
	}
	return errors.Join(errs...)
}

func (c *config) dashboard() dashboard.Config {
	return dashboard.Config{BasePath: c.BasePath, User: c.AdminUser, Password: c.password, SessionLifetime: c.SessionLifetime}
}
