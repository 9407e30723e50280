package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The places of credentials. Browsers cannot set headers on a WebSocket handshake, so the
// query and the list of protocols count there too. The query counts nowhere else, since
// proxies and servers log URLs.
const (
	keyHeader           = "x-api-key"
	authorizationHeader = "authorization"
	protocolHeader      = "sec-websocket-protocol"
	keyParameter        = "x-api-key"
	tokenParameter      = "access_token"

	bearerScheme = "bearer"
	keyPrefix    = "tg_"
)

// keySchemes are further schemes of Authorization under which clients send API keys.
var keySchemes = []string{"apikey", "token"}

// Request has the parts of a call that identify its caller.
type Request struct {
	// TokenOnly says that Token is the only credential, as in the event of a TOKEN
	// authorizer. The scheme Bearer is optional in it.
	TokenOnly bool
	Token     string

	Headers map[string][]string // lower-case names, every value
	Query   map[string][]string // of a WebSocket's handshake only
	Source  netip.Addr          // that API Gateway saw; not valid if unknown
}

// header returns the values of a header.
func (r Request) header(name string) []string { return r.Headers[strings.ToLower(name)] }

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// apiKey returns the API key of the request: a header or parameter for keys, Authorization
// with a scheme for keys, or a bearer token that begins with tg_. Several places may hold
// the same key. With onlyKeys the token of a TOKEN authorizer is a key in any form.
func (r Request) apiKey(c *Config, onlyKeys bool) (string, error) {
	bearers, err := r.bearers(c)
	if err != nil {
		return "", err
	}
	if r.TokenOnly && onlyKeys {
		return one(bearers)
	}
	found := slices.DeleteFunc(bearers, func(token string) bool { return !isKey(token) })
	for _, values := range append(r.keyHeaders(c), r.Query[keyParameter]) {
		if len(values) > 1 {
			return "", invalid("more than one API key")
		}
		found = append(found, values...)
	}
	for _, value := range r.Headers[authorizationHeader] {
		for _, scheme := range keySchemes {
			if key, ok := cutScheme(value, scheme); ok && (c.Foreign || isKey(key)) {
				found = append(found, key)
			}
		}
	}
	return one(found)
}

// keyHeaders returns the values of each header for keys.
func (r Request) keyHeaders(c *Config) (all [][]string) {
	if c.KeyHeaders == nil {
		return [][]string{r.Headers[keyHeader]}
	}
	for _, name := range c.KeyHeaders {
		all = append(all, r.Headers[name])
	}
	return all
}

// token returns the bearer token of the request: of Authorization, or the cookie of a page
// whose origin is listed. If API keys are a source too, a token that begins with tg_ is a
// key.
func (r Request) token(c *Config, keysToo bool) (string, error) {
	bearers, err := r.bearers(c)
	if err != nil {
		return "", err
	}
	cookies, err := r.cookies(c)
	if err != nil {
		return "", err
	}
	return one(slices.DeleteFunc(append(bearers, cookies...), func(token string) bool {
		return keysToo && isKey(token)
	}))
}

// cookies returns the tokens in the configured cookie. Browsers send cookies with requests
// that other sites make, so the cookie counts only if the request says that it comes from a
// listed origin.
func (r Request) cookies(c *Config) (tokens []string, err error) {
	origin := r.Headers["origin"]
	if c.Cookie == "" || len(origin) != 1 || !slices.Contains(c.CookieOrigins, origin[0]) {
		return nil, nil
	}
	for _, line := range r.Headers["cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if name, value, found := strings.Cut(strings.TrimSpace(pair), "="); found && name == c.Cookie {
				tokens = append(tokens, value)
			}
		}
	}
	if len(tokens) > 1 {
		return nil, invalid("more than one cookie with a token")
	}
	return tokens, nil
}

// one returns the credential if all places hold the same one.
func one(texts []string) (string, error) {
	switch texts = slices.Compact(texts); len(texts) {
	case 0:
		return "", ErrMissing
	case 1:
		return texts[0], nil
	}
	return "", invalid("credentials that differ")
}

// bearers returns every bearer token. It ignores other schemes, but refuses a header that
// a server could read as a second credential.
func (r Request) bearers(c *Config) ([]string, error) {
	if r.TokenOnly {
		return r.onlyToken(), nil
	}
	authorization, parameter := r.Headers[authorizationHeader], r.Query[tokenParameter]
	if len(authorization) > 1 || len(parameter) > 1 {
		return nil, invalid("more than one authorization")
	}
	var tokens []string
	for _, value := range authorization {
		token, bearer := cutBearer(value)
		if !bearer && c.has(JWT) && isBareToken(value) {
			token, bearer = value, true
		}
		switch {
		case !bearer && isKey(value):
			return nil, invalid("API key without the scheme Bearer")
		case bearer && strings.Contains(token, ",") || !bearer && hasBearer(value):
			return nil, invalid("more than one authorization")
		case bearer:
			tokens = append(tokens, token)
		}
	}
	return append(append(tokens, parameter...), r.protocols()...), nil
}

// protocols returns the credential in a browser's list of WebSocket protocols: what follows
// the entry bearer.
func (r Request) protocols() (tokens []string) {
	if r.Query == nil { // not a handshake
		return nil
	}
	list := strings.Split(strings.Join(r.Headers[protocolHeader], ","), ",")
	for i := 1; i < len(list); i++ {
		if strings.EqualFold(strings.TrimSpace(list[i-1]), bearerScheme) {
			tokens = append(tokens, strings.TrimSpace(list[i]))
		}
	}
	return tokens
}

func (r Request) onlyToken() []string {
	if r.Token == "" {
		return nil
	}
	if token, bearer := cutBearer(r.Token); bearer {
		return []string{token}
	}
	return []string{r.Token}
}

// cutBearer returns what follows the scheme Bearer.
func cutBearer(value string) (token string, bearer bool) { return cutScheme(value, bearerScheme) }

// cutScheme returns what follows a scheme, whose case does not matter.
func cutScheme(value, name string) (token string, found bool) {
	value = strings.TrimLeft(value, " \t")
	scheme := value
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		scheme, token = value[:i], value[i+1:]
	}
	if !strings.EqualFold(scheme, name) {
		return "", false
	}
	return token, true
}

// hasBearer reports whether a comma-separated list of authorizations has a bearer token
// after its first entry. Gateways join headers with commas.
func hasBearer(value string) bool {
	_, others, _ := strings.Cut(value, ",")
	for other := range strings.SplitSeq(others, ",") {
		if _, bearer := cutBearer(other); bearer {
			return true
		}
	}
	return false
}

// isKey reports whether a text begins as an API key does. The key may be malformed.
func isKey(text string) bool {
	text = strings.TrimLeft(text, " \t")
	return len(text) >= len(keyPrefix) && strings.EqualFold(text[:len(keyPrefix)], keyPrefix)
}

// isBareToken reports whether a value of Authorization is a token without a scheme, as
// clients of Cognito and JWT authorizers send it: three parts in base64url, of which the
// first is an object.
func isBareToken(value string) bool {
	parts := strings.Split(value, ".")
	return len(parts) == 3 && strings.HasPrefix(value, "ey") &&
		!slices.ContainsFunc(parts, func(part string) bool { return !spelled(part, "-_") })
}

// spelled reports whether a text has ASCII letters, digits and further characters alone, and
// is not empty.
func spelled(text, further string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune(further, r)
	})
}
