package identity

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/jwt"
	"tidegate/internal/proxies"
)

// Config configures the sources of identities.
type Config struct {
	Sources []Kind // in order; at least one
	Both    bool   // a call needs an API key and a token; the key is the caller
	// KeyHeaders are lower-case names of the headers with API keys; nil is x-api-key alone.
	KeyHeaders []string
	// Cookie is the name of a cookie with a token, which counts for pages of CookieOrigins;
	// empty for none.
	Cookie        string
	CookieOrigins []string
	JWT           jwt.Config
	IPv4Bits      int // length of the prefixes that share an identity
	IPv6Bits      int
	Foreign       bool // take API keys that another system made
	Proxies       proxies.Trusted
	// Pepper keys the opaque ids of token subjects and addresses. It is required unless
	// API keys of our form are the only source.
	Pepper apikey.Pepper
}

// Default returns a Config with API keys alone, whole IPv4 addresses, and the /64 that
// one customer usually has in IPv6.
func Default() Config { return Config{Sources: []Kind{Key}, IPv4Bits: 32, IPv6Bits: 64} }

// Bounds of the variables.
const (
	minIPv4Bits = 8
	minIPv6Bits = 16
)

// Variables is the part of the environment that configures identities.
type Variables struct {
	// Sources of [identities](identities.md) in order: one or more of `key`, `jwt` and
	// `ip`, separated by commas, `ip` last; or `key+jwt`, which requires both.
	Sources string `env:"IDENTITY_SOURCES" envDefault:"key"`
	// Headers with API keys: 1 to 8 names, separated by commas.
	KeyHeaders string `env:"KEY_HEADERS" envDefault:"x-api-key"`
	// Name of a [cookie with a token](identities.md#tokens-in-cookies); refused without `jwt`
	// and `JWT_COOKIE_ORIGINS`.
	Cookie string `env:"JWT_COOKIE" unset:"none"`
	// Origins of the pages whose cookie counts, separated by commas.
	CookieOrigins string `env:"JWT_COOKIE_ORIGINS" unset:"none"`
	// Claims for the backend, as names or paths: up to 8, separated by commas, each as
	// `claim_NAME` in the [context](backends.md#the-authorizer-context); ignored without `jwt`.
	ContextClaims string `env:"JWT_CONTEXT_CLAIMS" unset:"none"`
	// Issuer of tokens, exactly as in `iss`; refused without `jwt`.
	Issuer string `env:"JWT_ISSUER" unset:"required with jwt"`
	// 1 to 16 audiences, separated by commas: one must be in `aud`, or for a token
	// [without `aud`](identities.md#jwt) be its `client_id` or `azp`; refused without `jwt`.
	Audience string `env:"JWT_AUDIENCE" unset:"required with jwt"`
	// URL of the issuer's [keys](identities.md#jwt): https, or http on a loopback
	// address; refused without `jwt`.
	KeysURL string `env:"JWT_JWKS_URL" unset:"required with jwt, unless JWT_JWKS is set"`
	// The issuer's keys as a JSON Web Key Set, for functions that cannot reach it;
	// refused without `jwt`.
	Keys string `env:"JWT_JWKS"`
	// [Several issuers](identities.md#several-issuers), as a JSON list; refused without
	// `jwt` and beside the four variables above.
	Issuers string `env:"JWT_ISSUERS"`
	// Claim that identifies the caller: its name, or a path such as `act.sub`; ignored
	// without `jwt`.
	IdentityClaim string `env:"JWT_IDENTITY_CLAIM" envDefault:"sub"`
	// Claim that names the caller's plan, as name or path; ignored without `jwt`.
	PlanClaim string `env:"JWT_PLAN_CLAIM" unset:"none"`
	// Plans of the [groups](identities.md#plans-of-groups) that `JWT_PLAN_CLAIM` lists, as
	// a JSON object `{"GROUP": "PLAN"}`; ignored without `jwt`.
	PlanMap string `env:"JWT_PLAN_MAP"`
	// [Claims that must have these texts](identities.md#id-tokens-and-access-tokens), up to 8,
	// as a JSON object `{"CLAIM": "TEXT"}`; ignored without `jwt`.
	RequiredClaims string `env:"JWT_REQUIRED_CLAIMS"`
	// How far the issuer's clock may be off, 0s to 5m; ignored without `jwt`.
	Leeway string `env:"JWT_LEEWAY" envDefault:"30s"`
	// Proxies in front of the APIs that [report the client's
	// address](identities.md#behind-proxies): their networks, `cloudfront`, or how many
	// there are, 1 to 10; must be the same in both.
	TrustedProxies string `env:"TRUSTED_PROXIES" unset:"none"`
	// Bits of an IPv4 address that share an identity, 8 to 32.
	IPv4Prefix string `env:"IPV4_PREFIX" envDefault:"32"`
	// Bits of an IPv6 address that share an identity, 16 to 128.
	IPv6Prefix string `env:"IPV6_PREFIX" envDefault:"64"`
}

// Config parses the variables. Its error names each wrong variable, its value unless that
// could be secret, and its bound. The caller adds Client, Now and Log for tokens.
func (v Variables) Config() (Config, error) {
	var c Config
	var errs [7]error
	sources := v.Sources
	if c.Both = sources == "key+jwt"; c.Both {
		sources = "key,jwt"
	}
	c.Sources, errs[0] = parseSources(sources)
	c.KeyHeaders, errs[5] = parseKeyHeaders(v.KeyHeaders)
	c.Cookie = v.Cookie
	c.CookieOrigins, errs[6] = v.cookieOrigins(strings.Contains(v.Sources, JWT.String()))
	c.IPv4Bits, errs[1] = parseBits("IPV4_PREFIX", v.IPv4Prefix, minIPv4Bits, 32)
	c.IPv6Bits, errs[2] = parseBits("IPV6_PREFIX", v.IPv6Prefix, minIPv6Bits, 128)
	if c.Proxies, errs[4] = proxies.Parse(v.TrustedProxies); errs[4] != nil {
		errs[4] = fmt.Errorf("TRUSTED_PROXIES %w", errs[4])
	}
	switch {
	case slices.Contains(c.Sources, JWT), errs[0] != nil && strings.Contains(v.Sources, JWT.String()):
		c.JWT, errs[3] = v.tokens()
	case errs[0] == nil:
		errs[3] = v.noTokens()
	}
	if err := errors.Join(errs[:]...); err != nil {
		return Config{}, err
	}
	return c, nil
}

func parseSources(text string) ([]Kind, error) {
	var sources []Kind
	for name := range strings.SplitSeq(text, ",") {
		kind := Kind(max(0, slices.Index(kindNames[:], strings.TrimSpace(name))))
		switch {
		case kind == 0 || strings.TrimSpace(name) == "":
			return nil, fmt.Errorf("IDENTITY_SOURCES is %.100q: must be one or more of key, jwt and ip, "+
				"separated by commas", text)
		case slices.Contains(sources, kind):
			return nil, fmt.Errorf("IDENTITY_SOURCES is %.100q: must have %s once only", text, kind)
		case slices.Contains(sources, IP):
			return nil, fmt.Errorf("IDENTITY_SOURCES is %.100q: ip must stand last, since every call has "+
				"an address", text)
		}
		sources = append(sources, kind)
	}
	return sources, nil
}

func (c *Config) has(kind Kind) bool { return slices.Contains(c.Sources, kind) }

func parseKeyHeaders(text string) (names []string, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(strings.ToLower(text), ",") {
		name = strings.TrimSpace(name)
		if !spelled(name, "-_") || len(name) > maxName || slices.Contains([]string{authorizationHeader,
			"cookie",
			protocolHeader}, name) {
			return nil, fmt.Errorf("KEY_HEADERS has %.64q: must be names of headers such as x-api-key, "+
				"separated by commas; Authorization is read anyway", name)
		}
		names = append(names, name)
	}
	if len(names) > maxKeyHeaders {
		return nil, fmt.Errorf("KEY_HEADERS has %d names: must have at most %d", len(names), maxKeyHeaders)
	}
	return names, nil
}

// Bounds of KEY_HEADERS and JWT_COOKIE.
const (
	maxKeyHeaders = 8
	maxName       = 64 // bytes
)

// isOrigin reports whether a text is an origin as browsers send it.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && spelled(u.Hostname(), ".-") &&
		text == u.Scheme+"://"+strings.ToLower(u.Host)
}

// cookieOrigins checks JWT_COOKIE and parses JWT_COOKIE_ORIGINS.
func (v Variables) cookieOrigins(tokens bool) (origins []string, err error) {
	switch {
	case v.Cookie == "" && v.CookieOrigins == "":
		return nil, nil
	case v.Cookie == "":
		return nil, errors.New("JWT_COOKIE_ORIGINS is set without JWT_COOKIE: set both, or neither")
	case !tokens:
		return nil, errors.New("JWT_COOKIE is set, but jwt is not among IDENTITY_SOURCES: add it there, or " +
			"leave this out")
	}
	var errs []error
	if !spelled(v.Cookie, "._-") || len(v.Cookie) > maxName {
		errs = append(errs, fmt.Errorf("JWT_COOKIE is %.64q: must be the name of a cookie, 1 to 64 letters, "+
			"digits and ._-", v.Cookie))
	}
	for origin := range strings.SplitSeq(v.CookieOrigins, ",") {
		if origin = strings.TrimSpace(origin); !isOrigin(origin) {
			errs = append(errs, fmt.Errorf("JWT_COOKIE_ORIGINS has %.100q: must be origins such as "+
				"https://app.example.com, separated by commas", origin))
		}
		origins = append(origins, origin)
	}
	return origins, errors.Join(errs...)
}

func parseBits(variable, text string, low, high int) (int, error) {
	bits, err := strconv.Atoi(text)
	if err != nil || bits < low || bits > high {
		return 0, fmt.Errorf("%s is %.40q: must be a whole number from %d to %d", variable, text, low, high)
	}
	return bits, nil
}
