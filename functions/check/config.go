package main

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/config"
	"tidegate/internal/store"
	"tidegate/internal/telemetry"
)

// settings is the function's environment, read once at the start.
type settings struct {
	// `valkey://[user[:password]@]host[:port][,host…][?cluster=true]`; `valkeys://` for
	// TLS; `redis(s)://` works too. ElastiCache by IAM:
	// `valkeys://user@host?cluster=true&iam=CACHE`, `&serverless=true` for a serverless
	// cache, `&region=REGION` unless `AWS_REGION` is set.
	ValkeyURL string `env:"VALKEY_URL,required,notEmpty"`
	// Time for an answer of Valkey, 1ms to 10s; once connected, a check takes at most 1.5
	// times as long, with its retry.
	ValkeyTimeout time.Duration `env:"VALKEY_TIMEOUT" envDefault:"100ms"`
	// Time for a connection to Valkey, with TLS and log-in, and the longest that a call
	// waits for one, 100ms to 8s; see
	// [guarantees](guarantees.md#connecting).
	ValkeyConnectTimeout time.Duration `env:"VALKEY_CONNECT_TIMEOUT" envDefault:"5s"`
	// How long an environment counts a caller as verified after its last check while
	// Valkey is unavailable, 0s to 24h; `0s` denies every call then; see
	// [guarantees](guarantees.md#while-valkey-is-unavailable).
	CallerCache time.Duration `env:"CALLER_CACHE" envDefault:"10m"`
	// Longest time that a caller over a limit is denied without asking Valkey, 0s to 1m;
	// `0s` asks on every call; see
	// [guarantees](guarantees.md#while-a-caller-keeps-calling).
	DenyCache time.Duration `env:"DENY_CACHE" envDefault:"100ms"`
	// Secret for the hashes of keys, at least 32 characters; must be the same in both.
	KeyPepper string `env:"KEY_PEPPER,required,notEmpty"`
	// `debug`, `info`, `warn` or `error`.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// Name of the deployment: shown on every page of the dashboard, and a dimension of
	// the metrics; without it check writes no metrics.
	Stage string `env:"STAGE" unset:"none"`

	// Form of answers to HTTP APIs with payload 2.0, as the authorizer is configured:
	// `simple` or `iam`.
	Format authorizer.Format `env:"HTTP_API_RESPONSE" envDefault:"simple"`
	// How a known caller is denied on HTTP APIs: `deny` (403), or `context` if the
	// backend [answers 429](backends.md#a-true-429-on-an-http-api).
	Denial authorizer.Denial `env:"HTTP_API_DENY" envDefault:"deny"`
	// `true` adds a [`usageIdentifierKey`](backends.md#usage-plans-that-count-by-name) to
	// answers to REST and WebSocket APIs.
	UsageIdentifier bool `env:"USAGE_IDENTIFIER" envDefault:"false"`
	// `true` accepts [keys of another system](identities.md#foreign-key-values); must be
	// the same in both.
	ForeignKeys bool `env:"FOREIGN_KEYS" envDefault:"false"`
	// `on` answers [direct calls](direct.md) by whom IAM lets invoke the function.
	DirectCalls string `env:"DIRECT_CALLS" envDefault:"off"`
	// How long a call can be settled, 1s to 24h.
	SettleWithin time.Duration `env:"SETTLE_WITHIN" envDefault:"10m"`

	identity.Variables

	pepper  apikey.Pepper
	sources identity.Config
}

// readConfig reads and checks the environment, NAME=value strings. Its error names every
// variable that is wrong and contains no secret.
func readConfig(variables []string) (settings, error) {
	c, problems := config.Read[settings](variables)
	if c.Format != authorizer.Simple && c.Format != authorizer.IAM {
		problems.Add("HTTP_API_RESPONSE", fmt.Sprintf("is %q: must be simple or iam", c.Format))
	}
	if c.Denial != authorizer.Deny && c.Denial != authorizer.InContext {
		problems.Add("HTTP_API_DENY", fmt.Sprintf("is %q: must be deny or context", c.Denial))
	}
	if c.DirectCalls != "on" && c.DirectCalls != "off" {
		problems.Add("DIRECT_CALLS", fmt.Sprintf("is %q: must be on or off", c.DirectCalls))
	}
	if err := store.CheckURL(c.ValkeyURL); err != nil {
		problems.Add("VALKEY_URL", "cannot be used: "+err.Error())
	}
	c.checkDurations(&problems)
	var err error
	if c.pepper, err = apikey.NewPepper(c.KeyPepper); err != nil {
		problems.Add("KEY_PEPPER", "cannot be used: "+err.Error())
	}
	if err := telemetry.CheckDimension(c.Stage); err != nil && c.Stage != "" {
		problems.Add("STAGE", "cannot be used: "+err.Error())
	}
	c.sources, err = c.Config()
	problems.AddError(err)
	c.sources.Pepper, c.sources.Foreign = c.pepper, c.ForeignKeys
	if err == nil && c.ForeignKeys && !slices.Contains(c.sources.Sources, identity.Key) {
		problems.Add("FOREIGN_KEYS", "is true, but key is not among IDENTITY_SOURCES: add it there, or "+
			"leave this out")
	}
	if err := problems.Err(); err != nil {
		return settings{}, fmt.Errorf("environment: %w", err)
	}
	return c, nil
}

func (c settings) checkDurations(problems *config.Problems) {
	for _, d := range []struct {
		name  string
		value time.Duration
		bound config.Duration
	}{
		{"VALKEY_TIMEOUT", c.ValkeyTimeout, config.ValkeyTimeout},
		{"VALKEY_CONNECT_TIMEOUT", c.ValkeyConnectTimeout, config.ValkeyConnectTimeout},
		{"CALLER_CACHE", c.CallerCache, config.CallerCache},
		{"DENY_CACHE", c.DenyCache, config.DenyCache},
		{"SETTLE_WITHIN", c.SettleWithin, config.SettleWithin},
	} {
		if err := d.bound.Check(d.value); err != nil {
			problems.Add(d.name, err.Error())
		}
	}
}

func (c settings) answers() authorizer.Answers {
	return authorizer.Answers{Format: c.Format, Denial: c.Denial, UsageIdentifier: c.UsageIdentifier}
}
