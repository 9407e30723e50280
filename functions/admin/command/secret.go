package command

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Rotate gives a key a new secret. The previous one works until its grace period ends.
type Rotate struct {
	OnKey
	Repeatable
	rest.AcceptQuery
	Body struct {
		Grace string `json:"grace" maxLength:"40" label:"Previous secret works for" example:"24h" doc:"How long the previous secret stays valid: 0s to 90d"`
		OptionalReason
	}

	secret   apikey.Secret
	repeated bool
}

var graces = []templates.Option{
	{Value: "0s", Text: "none: stops working now"},
	{Value: "1h", Text: "1 hour"},
	{Value: "24h", Text: "1 day"},
	{Value: "168h", Text: "7 days"},
	{Value: "720h", Text: "30 days"},
	{Value: "2160h", Text: "90 days"},
}

// load implements Command. A repeated request finds what the first one left.
func (c *Rotate) load(ctx context.Context, s *Services) error {
	if err := c.OnKey.load(ctx, s); err != nil || c.IdempotencyKey == "" {
		return err
	}
	e := app.NewEdit(ctx, "")
	e.Repeat = c.repeat(ctx, c)
	k, secret, err := s.Keys.Rotated(ctx, c.ID, e)
	if errors.Is(err, policy.ErrNotFound) {
		return nil
	}
	c.key, c.secret, c.repeated = k, secret, err == nil
	return err
}

func (c *Rotate) ready() error {
	if err := c.OnKey.ready(); err != nil || c.key.Kind == policy.APIKey {
		return err
	}
	return &Refusal{Status: http.StatusConflict, Heading: "This caller has no API key",
		Advice: "It has no secret to rotate.", Path: c.subject().Path}
}

// Version is rest.IfMatch.Version, but for a repeated request any version is current.
func (c *Rotate) Version(current int64) (int64, error) {
	if c.repeated {
		return current, nil
	}
	return c.IfMatch.Version(current)
}

func (*Rotate) options(name string) []templates.Option {
	if name == "grace" {
		return graces
	}
	return nil
}

func (c *Rotate) fill(context.Context, *Services) error {
	c.Body.Grace = "24h"
	return nil
}

func (c *Rotate) lead(ctx context.Context, s *Services) ([]string, error) {
	return c.previousUse(ctx, s)
}

// warnings implements warner: a key has at most two secrets.
func (c *Rotate) warnings(ctx context.Context, s *Services) ([]string, error) {
	if c.repeated || !hasPrevious(c.key) {
		return nil, nil
	}
	name := "The previous secret"
	if s.Changes != nil {
		for _, e := range s.Changes.History(ctx, c.key.ID, c.key.Version) {
			if e.Action == registry.KeyRotate {
				name += ", replaced by " + page.Clip(e.By.Name, page.MaxName) + " on " +
					page.Instant(e.Time).Text + ","
				break
			}
		}
	}
	return []string{
		name + " works until " + page.Instant(c.key.Grace).Text + ". Rotating expires it now.",
	}, nil
}

func (c *Rotate) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	if c.repeated {
		return Result{}, nil
	}
	grace := time.Duration(0)
	if c.Body.Grace != "0s" && c.Body.Grace != "0" {
		var err error
		if grace, err = limits.ParseWindow(c.Body.Grace); err != nil {
			return Result{}, fieldError("grace", "must be 0s to 90d, such as 24h")
		}
	}
	before, version := c.key, c.at
	if version == registry.AnyVersion {
		version = before.Version
	}
	saved, secret, err := s.Keys.Rotate(ctx, c.ID, version, grace, e)
	result, err := c.saved(before, saved, registry.KeyRotate, err)
	if err == nil {
		c.secret, result.Secret, result.SecretOf = secret, secret.Reveal(), saved.ID
		result.Path = "/secrets/" + saved.ID
	}
	return result, err
}

// hasPrevious reports whether the secret before the last rotation still works.
func hasPrevious(k policy.Key) bool { return k.Grace.After(time.Now()) }

// previousUse says when the previous secret of a key was last used, if it still works.
func (c *OnKey) previousUse(ctx context.Context, s *Services) ([]string, error) {
	if !hasPrevious(c.key) {
		return nil, nil
	}
	at, err := app.OldSecretUsed(ctx, s.Records, c.key.ID, time.Now())
	switch {
	case err != nil:
		return nil, err
	case at.IsZero():
		return []string{"Previous secret not used in 30 days."}, nil
	}
	return []string{"Previous secret last used " + page.Instant(at).Text + "."}, nil
}

// ExpireSecret makes calls with the previous secret get 401.
type ExpireSecret struct {
	OnKey
	OptionalBody
}

func (c *ExpireSecret) lead(ctx context.Context, s *Services) ([]string, error) {
	if !hasPrevious(c.key) {
		return []string{"No previous secret is valid."}, nil
	}
	return c.previousUse(ctx, s)
}

func (c *ExpireSecret) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	before := c.key
	saved, err := s.Keys.ExpireSecret(ctx, c.ID, c.at, e)
	return c.saved(before, saved, registry.KeyExpire, err)
}

// Secret is a key with its new secret.
type Secret struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     struct {
		Key    policy.Key `json:"key"`
		Secret string     `json:"secret,omitempty" doc:"Only in this response; absent if the request gave the value"`
	}
}

// secretOf answers with a key and its new secret, without one that the caller gave.
func secretOf(k policy.Key, secret apikey.Secret) *Secret {
	out := &Secret{Location: keyURL(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = k
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}

func keyURL(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }
