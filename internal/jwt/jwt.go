// Package jwt verifies bearer tokens: JSON Web Tokens that an issuer signed with RS256,
// ES256 or EdDSA (Ed25519). The check function imports it. It knows no callers or plans.
//
// A token is valid if one of the issuer's keys signed it with that key's algorithm. It
// must name the issuer and one of the audiences, have an expiry, and be valid now, within
// the leeway. The unsigned (none) and symmetric (HS…) algorithms are never accepted, nor
// is a key that the token contains. github.com/go-jose/go-jose verifies the signatures.
package jwt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
)

// Bounds.
const (
	MaxTokenLen = 8192 // bytes; API Gateway takes 10,240 bytes of headers in all
	MaxLeeway   = 5 * time.Minute
)

// The errors of Verify. Their texts, including those of causes, contain no part of the
// token.
var (
	// ErrInvalid means that a token is not valid.
	ErrInvalid = errors.New("bearer token refused")
	// ErrExpired is an ErrInvalid: the token is valid except for its expiry.
	ErrExpired = fmt.Errorf("%w: expired", ErrInvalid)
	// ErrNoKeys means that a token cannot be verified, because the issuer's keys were
	// never read, or were read too long ago. The caller must be denied.
	ErrNoKeys = errors.New("the token issuer's keys are unknown")
)

var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// Config determines which tokens are valid. Either KeysURL or Keys is set.
type Config struct {
	Issuer string // exactly as in iss
	// One of Audiences must be in aud. For a token without aud it must be the client_id,
	// as with API Gateway's own JWT authorizers.
	Audiences []string
	KeysURL   *url.URL // URL of the issuer's JSON Web Key Set; see ParseURL
	Keys      KeySet   // the issuer's keys, for a function that cannot reach the issuer

	IdentityClaim string        // the claim that identifies the caller; empty means sub
	PlanClaim     string        // the claim that names the plan; empty means none
	Leeway        time.Duration // allowed difference from the issuer's clock, 0 to MaxLeeway

	Client *http.Client     // reads KeysURL without following redirects; nil means a new client
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // logs failures to read keys; nil means none
}

// Claims are the claims of a valid token.
type Claims struct {
	Issuer  string
	Subject string // value of the identity claim; never empty
	Plan    string // value of the plan claim; empty if there is none
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	keys   keys
}

// keys finds the issuer's key for a token.
type keys interface {
	find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) (any, error)
}

// New returns a Verifier. It does not read keys yet.
func New(c Config) (*Verifier, error) {
	switch {
	case c.Issuer == "" || len(c.Audiences) == 0:
		return nil, errors.New("tokens need an issuer and an audience")
	case (c.KeysURL == nil) == (c.Keys.Len() == 0):
		return nil, errors.New("tokens need either the URL of keys or keys")
	case c.Leeway < 0 || c.Leeway > MaxLeeway:
		return nil, fmt.Errorf("leeway is %s: must be 0 to %s", c.Leeway, MaxLeeway)
	}
	if c.IdentityClaim == "" {
		c.IdentityClaim = "sub"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{config: c, keys: c.Keys}
	if c.KeysURL != nil {
		v.keys = newRemote(c)
	}
	return v, nil
}

// Verify returns a valid token's claims, otherwise ErrInvalid or ErrNoKeys. It may fetch
// keys, for at most fetchTimeout.
func (v *Verifier) Verify(ctx context.Context, token string) (Claims, error) {
	if len(token) > MaxTokenLen {
		return Claims{}, refused("longer than %d bytes", MaxTokenLen)
	}
	parsed, err := josejwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return Claims{}, refused("not a token signed with RS256, ES256 or EdDSA")
	}
	header := parsed.Headers[0]
	key, err := v.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return Claims{}, err
	}
	var claims josejwt.Claims
	var all map[string]any
	if err := parsed.Claims(key, &claims, &all); err != nil {
		return Claims{}, refused("bad signature or claims")
	}
	if err := v.validate(claims, all); err != nil {
		return Claims{}, err
	}
	return v.read(claims.Issuer, all)
}

// Warm reads the keys if they come from a URL, so that the first token does not wait for
// them.
func (v *Verifier) Warm(ctx context.Context) {
	if r, ok := v.keys.(*remote); ok {
		r.refresh(ctx)
	}
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

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
		return refused("wrong issuer")
	case errors.Is(err, josejwt.ErrInvalidAudience):
		return refused("wrong audience")
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
		return Claims{}, refused("identity claim is not a string, or is empty")
	}
	value, given := all[v.config.PlanClaim]
	if v.config.PlanClaim == "" || !given {
		return c, nil
	}
	plan, ok := value.(string)
	if !ok || plan == "" || len(plan) > maxPlanLen {
		return Claims{}, refused("plan claim is not a string of 1 to %d bytes", maxPlanLen)
	}
	c.Plan = plan
	return c, nil
}
