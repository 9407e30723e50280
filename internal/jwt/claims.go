package jwt

import (
	"errors"
	"unicode/utf8"

	josejwt "github.com/go-jose/go-jose/v4/jwt"
)

// maxPlanLen bounds a plan's name, in bytes.
const maxPlanLen = 400

// validate checks the token's issuer, audience and times.
func (v *Verifier) validate(c josejwt.Claims, all map[string]any) error {
	if c.Expiry == nil {
		return refused("no expiry")
	}
	if _, given := all["aud"]; !given {
		client, _ := all["client_id"].(string)
		c.Audience = josejwt.Audience{client}
	}
	err := c.ValidateWithLeeway(josejwt.Expected{Issuer: v.config.Issuer, AnyAudience: v.config.Audiences,
		Time: v.config.Now()}, v.config.Leeway)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, josejwt.ErrInvalidIssuer):
		return refused("another issuer")
	case errors.Is(err, josejwt.ErrInvalidAudience):
		return refused("another audience")
	case errors.Is(err, josejwt.ErrExpired):
		return ErrExpired
	case errors.Is(err, josejwt.ErrNotValidYet), errors.Is(err, josejwt.ErrIssuedInTheFuture):
		return refused("not valid yet")
	}
	return refused("bad claims")
}

// read returns the claims that the configuration names. A claim with the wrong type makes
// the token invalid.
func (v *Verifier) read(issuer string, all map[string]any) (Claims, error) {
	c := Claims{Issuer: issuer}
	c.Subject, _ = all[v.config.IdentityClaim].(string)
	if c.Subject == "" || !utf8.ValidString(c.Subject) {
		return Claims{}, refused("no text as its identity claim")
	}
	value, given := all[v.config.PlanClaim]
	if v.config.PlanClaim == "" || !given {
		return c, nil
	}
	plan, ok := value.(string)
	if !ok || plan == "" || len(plan) > maxPlanLen {
		return Claims{}, refused("no text of 1 to %d bytes as its plan claim", maxPlanLen)
	}
	c.Plan = plan
	return c, nil
}
