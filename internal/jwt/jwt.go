// Package jwt verifies bearer tokens: JSON Web Tokens that one of several issuers signed.
// The check function imports it. It knows no callers or plans.
//
// The token's iss selects the issuer. A token is valid if one of the issuer's keys signed
// it with that key's algorithm. It must name one of the issuer's audiences, have an
// expiry, and be valid now, within the leeway. The algorithms are RS, PS and ES with 256,
// 384 and 512 bits, and EdDSA with Ed25519, under both of its names. The unsigned (none)
// and symmetric (HS…) algorithms are never accepted, nor is a key that the token contains.
// Of the token's header alg, kid and crit are read, and nothing else: what it has besides
// must neither help a token nor refuse it.
package jwt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // refuses members that are given twice
)

// Bounds.
const (
	MaxTokenLen = 10_240 // bytes; API Gateway takes as many of all headers together
	MaxLeeway   = 5 * time.Minute
	MaxIssuers  = 8
	MaxTenants  = 64
)

// TenantMark stands in an issuer's name for the id of a tenant, as Microsoft Entra
// writes it.
const TenantMark = "{tenantid}"

// The errors of Verify. Their texts, including those of causes, contain no part of the
// token.
var (
	// ErrInvalid means that a token is not valid.
	ErrInvalid = errors.New("bearer token refused")
	// ErrExpired is an ErrInvalid: the token is valid except for its expiry.
	ErrExpired = refused("claim exp is in the past")
	// ErrNoKeys means that a token cannot be verified, because the issuer's keys were
	// never read, or were read too long ago. The caller must be denied.
	ErrNoKeys = errors.New("the token issuer's keys are unknown")
)

// algorithms are those that keys may have.
var algorithms = slices.Concat(rsaAlgorithms, ed25519Algorithms,
	[]jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512})

// Algorithms returns the names of the algorithms that an Issuer may be limited to.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// Config determines which tokens are valid.
type Config struct {
	Issuers []Issuer // 1 to MaxIssuers, with names that differ
	// ContextClaims are claims that Verify returns for backends: names or paths.
	ContextClaims []string

	Client *http.Client     // reads key sets without following redirects; nil means a new client
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // logs failures to read keys; nil means none
}

// Issuer determines which tokens of an issuer are valid. Either KeysURL or Keys is set.
type Issuer struct {
	Name    string   // exactly as in iss; TenantMark stands for one of Tenants
	Tenants []string // given if and only if Name has TenantMark
	// One of Audiences must be in aud. For a token without aud it must be the client_id, as
	// with API Gateway's own JWT authorizers, or for one without that the azp.
	Audiences []string
	// RequiredClaims has claims that must have these texts, such as token_use, by name or path.
	RequiredClaims map[string]string
	KeysURL        *url.URL // URL of the issuer's JSON Web Key Set; see ParseURL
	Keys           KeySet   // the issuer's keys, for a function that cannot reach the issuer
	Algorithms     []string // empty means all

	// IdentityClaim is the claim that identifies the caller; empty means sub. PlanClaim is
	// the claim that names the plan, or groups of Plans; empty means none. Each is a name
	// or a path, as find takes it.
	IdentityClaim, PlanClaim string
	// Plans maps values of PlanClaim, a text or a list, to plans. The first value with a
	// plan counts. If it is nil, the claim is a text that names the plan itself.
	Plans  map[string]string
	Leeway time.Duration // allowed difference from the issuer's clock, 0 to MaxLeeway
}

// Claims are the claims of a valid token.
type Claims struct {
	Issuer  string
	Subject string // value of the identity claim; never empty
	Plan    string // plan that the plan claim names; empty if there is none
	NoPlan  string // why the plan claim names none, for people
	// Scopes are the words of scope, or of scp, and empty without either.
	Scopes []string
	// Context has the claims of Config.ContextClaims that the token has, by ContextKey:
	// texts, numbers and booleans; all else as JSON. It lacks those that are longer than
	// MaxContextValue.
	Context map[string]any
}

// Bounds of the claims for backends, which API Gateway takes 8 KB of with all else.
const (
	MaxContextClaims = 8
	MaxContextName   = 64  // bytes of a name
	MaxContextValue  = 256 // bytes of a value
)

// ContextKey returns the key of a claim in an authorizer's context: claim_ and the name,
// with _ for all but letters and digits.
func ContextKey(name string) string {
	return "claim_" + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	context []string
	now     func() time.Time
	issuers map[string]*trustedIssuer // by iss, one for each tenant
	remotes []*remote
}

// trustedIssuer is an Issuer with its keys.
type trustedIssuer struct {
	Issuer

	keys interface {
		verify(ctx context.Context, t token) error
	}
}

// token is a token that is not verified yet.
type token struct {
	signed    []byte // header and payload, as the issuer signed them
	signature []byte
	keyID     string
	algorithm jose.SignatureAlgorithm
	claims    map[string]any
}

// New returns a Verifier. It does not read keys yet.
func New(c Config) (*Verifier, error) {
	if len(c.Issuers) == 0 || len(c.Issuers) > MaxIssuers {
		return nil, fmt.Errorf("got %d token issuers: want 1 to %d", len(c.Issuers), MaxIssuers)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{context: c.ContextClaims, now: c.Now, issuers: map[string]*trustedIssuer{}}
	for _, i := range c.Issuers {
		if err := i.Check(); err != nil {
			return nil, err
		}
		if i.IdentityClaim == "" {
			i.IdentityClaim = "sub"
		}
		one := &trustedIssuer{Issuer: i, keys: i.Keys}
		if i.KeysURL != nil {
			r := newRemote(i, c)
			one.keys, v.remotes = r, append(v.remotes, r)
		}
		for _, name := range i.names() {
			if v.issuers[name] != nil {
				return nil, fmt.Errorf("token issuer %.100q is given twice", name)
			}
			v.issuers[name] = one
		}
	}
	return v, nil
}

// Check checks the settings of an issuer that do not depend on other issuers.
func (i *Issuer) Check() error {
	switch {
	case i.Name == "" || len(i.Audiences) == 0:
		return errors.New("tokens need an issuer and an audience")
	case (i.KeysURL == nil) == (i.Keys.Len() == 0):
		return errors.New("tokens need either the URL of keys or keys")
	case i.Leeway < 0 || i.Leeway > MaxLeeway:
		return fmt.Errorf("leeway is %s: must be 0 to %s", i.Leeway, MaxLeeway)
	case strings.Contains(i.Name, TenantMark) != (len(i.Tenants) > 0) || len(i.Tenants) > MaxTenants:
		return fmt.Errorf("tenants: got %d for issuer %.100q: want 1 to %d if it has %s, otherwise none",
			len(i.Tenants), i.Name, MaxTenants, TenantMark)
	case slices.Contains(i.Tenants, ""):
		return errors.New("tenants: one is empty")
	}
	for _, name := range i.Algorithms {
		if !slices.Contains(Algorithms(), name) {
			return fmt.Errorf("algorithms: %.20q is none of %s", name, strings.Join(Algorithms(), ", "))
		}
	}
	return nil
}

// names returns the values of iss that the issuer may use.
func (i *Issuer) names() []string {
	if len(i.Tenants) == 0 {
		return []string{i.Name}
	}
	var all []string
	for _, tenant := range i.Tenants {
		all = append(all, strings.ReplaceAll(i.Name, TenantMark, tenant))
	}
	return all
}

// Verify returns a valid token's claims, otherwise ErrInvalid or ErrNoKeys. It may wait for
// keys, for at most fetchWait.
func (v *Verifier) Verify(ctx context.Context, text string) (Claims, error) {
	t, err := parse(text)
	if err != nil {
		return Claims{}, err
	}
	name, ok := t.claims["iss"].(string)
	if !ok {
		return Claims{}, refused("claim iss is missing, or is not text")
	}
	i := v.issuers[name]
	switch {
	case i == nil:
		return Claims{}, refused("claim iss names no issuer that is configured, letter by letter")
	case len(i.Algorithms) > 0 && !slices.Contains(i.Algorithms, string(t.algorithm)):
		return Claims{}, refused("alg %s is not among the issuer's algorithms", t.algorithm)
	}
	if err := i.keys.verify(ctx, t); err != nil {
		return Claims{}, err
	}
	if err := i.validate(t.claims, v.now()); err != nil {
		return Claims{}, err
	}
	c, err := i.read(name, t.claims)
	if err == nil {
		c.Context, c.Scopes = contextOf(t.claims, v.context), scopesOf(t.claims)
	}
	return c, err
}

// parse reads a token without verifying it.
func parse(text string) (token, error) {
	if len(text) > MaxTokenLen {
		return token{}, refused("longer than %d bytes", MaxTokenLen)
	}
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 {
		return token{}, errNotSigned
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return token{}, errNotSigned
		}
	}
	t := token{signed: []byte(parts[0] + "." + parts[1]), signature: decoded[2]}
	if err := t.readHeader(decoded[0]); err != nil {
		return token{}, err
	}
	if json.Unmarshal(decoded[1], &t.claims) != nil || t.claims == nil {
		return token{}, refused("claims are not a JSON object, or one is given twice")
	}
	return t, nil
}

var errNotSigned = refused("not a signed JSON Web Token: must be three parts in base64url")

// readHeader reads the members of a token's header that are used. Certificates and keys in
// it are ignored, whatever their form.
func (t *token) readHeader(text []byte) error {
	var header struct {
		Algorithm string          `json:"alg"`
		KeyID     any             `json:"kid"`
		Critical  json.RawMessage `json:"crit"`
	}
	switch {
	case json.Unmarshal(text, &header) != nil:
		return refused("header is not a JSON object, has an alg that is no text, or a member twice")
	case !slices.Contains(Algorithms(), header.Algorithm):
		return refused("alg is none of %s", strings.Join(Algorithms(), ", "))
	case header.Critical != nil:
		return refused("header has crit, which asks for what is not supported")
	}
	t.algorithm, t.keyID = jose.SignatureAlgorithm(header.Algorithm), named(header.KeyID)
	return nil
}

// Warm reads the keys that come from URLs, so that the first token does not wait for
// them.
func (v *Verifier) Warm(ctx context.Context) {
	for _, r := range v.remotes {
		r.refresh(ctx)
	}
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
