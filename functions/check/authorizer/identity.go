package authorizer

import (
	"errors"
	"strings"

	"tidegate/internal/apikey"
)

const (
	keyHeader    = "x-api-key"
	bearerScheme = "bearer "
	keyPrefix    = "tg_"
)

var errCredential = errors.New("no single API key that may call")

// secretOf finds the API key of a call: the token, the x-api-key header or Authorization: Bearer tg_…. A bearer token of another kind is the
// backend's business. Two different keys are refused, and so is a repeated header: which one counts would be a guess.
func secretOf(e event) (apikey.Secret, error) {
	var found []string
	if e.kind == restToken {
		found = []string{withoutBearer(e.token)}
	} else {
		found = append(found, e.headers[keyHeader]...)
		for _, value := range e.headers["authorization"] {
			if token := withoutBearer(value); token != value && strings.HasPrefix(token, keyPrefix) {
				found = append(found, token)
			}
		}
	}
	if len(found) == 2 && len(e.headers[keyHeader]) == 1 && found[0] == found[1] {
		found = found[:1]
	}
	if len(found) != 1 {
		return apikey.Secret{}, errCredential
	}
	secret, err := apikey.Parse(found[0])
	if err != nil {
		return apikey.Secret{}, errCredential
	}
	return secret, nil
}

// withoutBearer returns value without a leading "Bearer ", whose case does not matter.
func withoutBearer(value string) string {
	if len(value) > len(bearerScheme) && strings.EqualFold(value[:len(bearerScheme)], bearerScheme) {
		return value[len(bearerScheme):]
	}
	return value
}
