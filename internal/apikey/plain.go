package apikey

import "strings"

// GeneratePlain returns a new random secret without an env: prefix, 43 base62 characters,
// checksum. It has an id and is hashed as an API key is. Its prefix distinguishes it from
// API keys.
func GeneratePlain(prefix string) Secret {
	body := prefix + randomText(secretLen)
	return Secret{text: body + checksum(body), id: body[len(prefix) : len(prefix)+IDLen]}
}

// ParsePlain reads what GeneratePlain made with the same prefix. It fails with
// ErrMalformed, which does not say why.
func ParsePlain(prefix, text string) (Secret, error) {
	secret, found := strings.CutPrefix(text, prefix)
	if !found || len(secret) != secretLen+checksumLen || !isBase62(secret) {
		return Secret{}, ErrMalformed
	}
	if body := text[:len(text)-checksumLen]; checksum(body) != text[len(body):] {
		return Secret{}, ErrMalformed
	}
	return Secret{text: text, id: secret[:IDLen]}, nil
}
