package main

import (
	"fmt"
	"log/slog"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/environ"
	"tidegate/internal/store"
)

// config is the function's environment, read once.
type config struct {
	ValkeyURL     string            `env:"VALKEY_URL,required,notEmpty"`
	ValkeyTimeout time.Duration     `env:"VALKEY_TIMEOUT" envDefault:"100ms"`
	KeyPepper     string            `env:"KEY_PEPPER,required,notEmpty"`
	Format        authorizer.Format `env:"HTTP_API_RESPONSE" envDefault:"simple"`
	LogLevel      slog.Level        `env:"LOG_LEVEL" envDefault:"info"`
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
	if err := store.CheckURL(c.ValkeyURL); err != nil {
		return config{}, fmt.Errorf("environment: VALKEY_URL: %w", err)
	}
	if c.ValkeyTimeout < time.Millisecond || c.ValkeyTimeout > 10*time.Second {
		return config{}, fmt.Errorf("environment: VALKEY_TIMEOUT is %s: must be 1ms to 10s", c.ValkeyTimeout)
	}
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		return config{}, fmt.Errorf("environment: KEY_PEPPER: %w", err)
	}
	if c.sources, err = c.Config(); err != nil {
		return config{}, fmt.Errorf("environment: %w", err)
	}
	return c, nil
}
