package main

import (
	"fmt"
	"log/slog"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/config"
	"tidegate/internal/store"
	"tidegate/internal/telemetry"
)

// config is the function's environment, read once.
type settings struct {
	ValkeyURL            string        `env:"VALKEY_URL,required,notEmpty"`
	ValkeyTimeout        time.Duration `env:"VALKEY_TIMEOUT" envDefault:"100ms"`
	ValkeyConnectTimeout time.Duration `env:"VALKEY_CONNECT_TIMEOUT" envDefault:"5s"`
	CallerCache          time.Duration `env:"CALLER_CACHE" envDefault:"10m"`
	DenyCache            time.Duration `env:"DENY_CACHE" envDefault:"100ms"`
	KeyPepper            string        `env:"KEY_PEPPER,required,notEmpty"`
	LogLevel             slog.Level    `env:"LOG_LEVEL" envDefault:"info"`
	Stage                string        `env:"STAGE"`

	Format           authorizer.Format `env:"HTTP_API_RESPONSE" envDefault:"simple"`
	Denial           authorizer.Denial `env:"HTTP_API_DENY" envDefault:"deny"`
	UsageIdentifier  bool              `env:"USAGE_IDENTIFIER" envDefault:"false"`
	ReservationLease time.Duration     `env:"RESERVATION_LEASE" envDefault:"10m"`

	identity.Variables

	pepper  apikey.Pepper
	sources identity.Config
}

// readConfig reads and checks the environment, NAME=value strings. Its error names every
// variable that is wrong; it repeats no secret.
func readConfig(variables []string) (settings, error) {
	c, wrong := config.Read[settings](variables)
	if c.Format != authorizer.Simple && c.Format != authorizer.IAM {
		wrong.Add("HTTP_API_RESPONSE", fmt.Sprintf("is %q: must be simple or iam", c.Format))
	}
	if c.Denial != authorizer.Deny && c.Denial != authorizer.InContext {
		wrong.Add("HTTP_API_DENY", fmt.Sprintf("is %q: must be deny or context", c.Denial))
	}
	if err := store.CheckURL(c.ValkeyURL); err != nil {
		wrong.Add("VALKEY_URL", "cannot be used: "+err.Error())
	}
	c.checkDurations(&wrong)
	var err error
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		wrong.Add("KEY_PEPPER", "cannot be used: "+err.Error())
	}
	if err := telemetry.CheckDimension(c.Stage); err != nil && c.Stage != "" {
		wrong.Add("STAGE", "cannot be used: "+err.Error())
	}
	c.sources, err = c.Config()
	wrong.AddError(err)
	c.sources.Pepper = c.pepper
	if err := wrong.Err(); err != nil {
		return settings{}, fmt.Errorf("environment: %w", err)
	}
	return c, nil
}

func (c settings) checkDurations(wrong *config.Problems) {
	for _, d := range []struct {
		name  string
		value time.Duration
		bound config.Duration
	}{
		{"VALKEY_TIMEOUT", c.ValkeyTimeout, config.ValkeyTimeout},
		{"VALKEY_CONNECT_TIMEOUT", c.ValkeyConnectTimeout, config.ValkeyConnectTimeout},
		{"CALLER_CACHE", c.CallerCache, config.CallerCache},
		{"DENY_CACHE", c.DenyCache, config.DenyCache},
		{"RESERVATION_LEASE", c.ReservationLease, config.ReservationLease},
	} {
		if err := d.bound.Check(d.value); err != nil {
			wrong.Add(d.name, err.Error())
		}
	}
}

func (c settings) answers() authorizer.Answers {
	return authorizer.Answers{Format: c.Format, Denial: c.Denial, UsageIdentifier: c.UsageIdentifier}
}
