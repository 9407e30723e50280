package main

import (
	"fmt"
	"log/slog"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/environ"
	"tidegate/internal/setting"
	"tidegate/internal/store"
)

// config is the function's environment, read once.
type config struct {
	ValkeyURL     string        `env:"VALKEY_URL,required,notEmpty"`
	ValkeyTimeout time.Duration `env:"VALKEY_TIMEOUT" envDefault:"100ms"`
	CallerCache   time.Duration `env:"CALLER_CACHE" envDefault:"10m"`
	DenyCache     time.Duration `env:"DENY_CACHE" envDefault:"100ms"`
	KeyPepper     string        `env:"KEY_PEPPER,required,notEmpty"`
	LogLevel      slog.Level    `env:"LOG_LEVEL" envDefault:"info"`
	Stage         string        `env:"STAGE"`

	Format           authorizer.Format `env:"HTTP_API_RESPONSE" envDefault:"simple"`
	Denial           authorizer.Denial `env:"HTTP_API_DENY" envDefault:"deny"`
	UsageIdentifier  bool              `env:"USAGE_IDENTIFIER" envDefault:"false"`
	ReservationLease time.Duration     `env:"RESERVATION_LEASE" envDefault:"10m"`

	identity.Variables

	pepper  apikey.Pepper
	sources identity.Config
}

// readConfig reads and checks the environment, NAME=value strings. Its error names every variable that is wrong; it repeats no secret.
func readConfig(variables []string) (config, error) {
	c, err := environ.Read[config](variables)
	if err != nil {
		return config{}, fmt.Errorf("environment: %w", err)
	}
	if c.Format != authorizer.Simple && c.Format != authorizer.IAM {
		return config{}, fmt.Errorf("environment: HTTP_API_RESPONSE is %q: must be simple or iam", c.Format)
	}
	if c.Denial != authorizer.Deny && c.Denial != authorizer.InContext {
		return config{}, fmt.Errorf("environment: HTTP_API_DENY is %q: must be deny or context", c.Denial)
	}
	if err := store.CheckURL(c.ValkeyURL); err != nil {
		return config{}, fmt.Errorf("environment: VALKEY_URL: %w", err)
	}
	if err := c.checkDurations(); err != nil {
		return config{}, fmt.Errorf("environment: %w", err)
	}
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		return config{}, fmt.Errorf("environment: KEY_PEPPER: %w", err)
	}
	if c.sources, err = c.Config(); err != nil {
		return config{}, fmt.Errorf("environment: %w", err)
	}
	c.sources.Pepper = c.pepper
	return c, nil
}

func (c config) checkDurations() error {
	for _, d := range []struct {
		name  string
		value time.Duration
		bound setting.Duration
	}{
		{"VALKEY_TIMEOUT", c.ValkeyTimeout, setting.ValkeyTimeout},
		{"CALLER_CACHE", c.CallerCache, setting.CallerCache},
		{"DENY_CACHE", c.DenyCache, setting.DenyCache},
		{"RESERVATION_LEASE", c.ReservationLease, setting.ReservationLease},
	} {
		if err := d.bound.Check(d.value); err != nil {
			return fmt.Errorf("%s %w", d.name, err)
		}
	}
	return nil
}

func (c config) answers() authorizer.Answers {
	return authorizer.Answers{Format: c.Format, Denial: c.Denial, UsageIdentifier: c.UsageIdentifier}
}
