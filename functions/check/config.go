package main

import (
	"fmt"
	"log/slog"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/environ"
	"tidegate/internal/policy"
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
	if c.ReservationLease < policy.MinLease || c.ReservationLease > policy.MaxLease {
		return config{}, fmt.Errorf("environment: RESERVATION_LEASE is %s: must be %s to %s", c.ReservationLease, policy.MinLease, policy.MaxLease)
	}
	if err := store.CheckURL(c.ValkeyURL); err != nil {
		return config{}, fmt.Errorf("environment: VALKEY_URL: %w", err)
	}
	if c.ValkeyTimeout < time.Millisecond || c.ValkeyTimeout > 10*time.Second {
		return config{}, fmt.Errorf("environment: VALKEY_TIMEOUT is %s: must be 1ms to 10s", c.ValkeyTimeout)
	}
	if c.CallerCache < 0 || c.CallerCache > 24*time.Hour {
		return config{}, fmt.Errorf("environment: CALLER_CACHE is %s: must be 0s to 24h", c.CallerCache)
	}
	if c.DenyCache < 0 || c.DenyCache > time.Minute {
		return config{}, fmt.Errorf("environment: DENY_CACHE is %s: must be 0s to 1m", c.DenyCache)
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

func (c config) answers() authorizer.Answers {
	return authorizer.Answers{Format: c.Format, Denial: c.Denial, UsageIdentifier: c.UsageIdentifier}
}
