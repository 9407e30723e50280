package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The places of credentials. Browsers cannot set headers on a WebSocket handshake, so the
// query counts there too. It counts nowhere else, since proxies and servers log URLs.
const (
	keyHeader           = "x-api-key"
	authorizationHeader = "authorization"
	keyParameter        = "x-api-key"
	tokenParameter      = "access_token"

	bearerScheme = "bearer"
	keyPrefix    = "tg_"
)

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

// apiKey returns the API key of the request: the x-api-key header or parameter, or a
// bearer token that begins with tg_. Several places may hold the same key. With onlyKeys
// the token of a TOKEN authorizer is a key in any form.
func (r Request) apiKey(onlyKeys bool) (string, error) {
	bearers, err := r.bearers()
	if err != nil {
		return "", err
	}
	if r.TokenOnly && onlyKeys {
		return one(bearers)
	}
	header, parameter := r.Headers[keyHeader], r.Query[keyParameter]
	if len(header) > 1 || len(parameter) > 1 {
		return "", invalid("more than one API key")
	}
	return one(slices.Concat(header, parameter, slices.DeleteFunc(bearers, func(token string) bool {
		return !isKey(token)
	})))
}

// token returns the bearer token of the request. If API keys are a source too, a token
// that begins with tg_ is a key.
func (r Request) token(keysToo bool) (string, error) {
	bearers, err := r.bearers()
	if err != nil {
		return "", err
	}
	return one(slices.DeleteFunc(bearers, func(token string) bool { return keysToo && isKey(token) }))
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
func (r Request) bearers() ([]string, error) {
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
		switch {
		case !bearer && isKey(value):
			return nil, invalid("API key without the scheme Bearer")
		case bearer && strings.Contains(token, ",") || !bearer && hasBearer(value):
			return nil, invalid("more than one authorization")
		case bearer:
			tokens = append(tokens, token)
		}
	}
	return append(tokens, parameter...), nil
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

// cutBearer returns what follows the scheme Bearer, whose case does not matter.
func cutBearer(value string) (token string, bearer bool) {
	value = strings.TrimLeft(value, " \t")
	scheme := value
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		scheme, token = value[:i], value[i+1:]
	}
	if !strings.EqualFold(scheme, bearerScheme) {
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
