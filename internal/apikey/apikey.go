// Package apikey makes, reads and hashes API keys. It also makes the ids of callers
// without a key: the holder of a token, the clients behind an address.
//
// A key reads tg_<env>_<secret><checksum>: env is 1 to 16 lower-case letters or digits,
// the secret 43 base62 characters (256 random bits) and the checksum 6 (CRC-32 of the
// text before it). So a mistyped or made-up key is refused without a look-up. The first
// 12 characters of the secret are the key's public id: it names the key in logs, pages
// and Valkey. Valkey keeps an HMAC-SHA-256 of the whole text. Key.Foreign reads keys that
// another system made.
package apikey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

const (
	prefix      = "tg_"
	alphabet    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secretLen   = 43
	checksumLen = 6
	maxEnvLen   = 16

	// IDLen is the length of a key's id.
	IDLen = 12
	// MaxLen is the length of the longest key.
	MaxLen = len(prefix) + maxEnvLen + 1 + secretLen + checksumLen
	// MinPepperLen is the shortest pepper that NewPepper takes.
	MinPepperLen = 32
)

// ErrMalformed means that a text is no API key: its form or its checksum is wrong.
var ErrMalformed = errors.New("malformed API key")

// Secret is a well-formed API key. It never prints itself: use Reveal.
type Secret struct {
	text    string
	id      string
	foreign bool
}

// Generate returns a new random key for env.
func Generate(env string) (Secret, error) {
	if !ValidEnv(env) {
		return Secret{}, fmt.Errorf("env %q: must be 1 to %d lower-case letters or digits", env, maxEnvLen)
	}
	body := prefix + env + "_" + randomText(secretLen)
	return Parse(body + checksum(body))
}

// Renew returns a new random key for env with the id of another key. 31 characters are
// new, 184 random bits.
func Renew(env, id string) (Secret, error) {
	if !ValidEnv(env) || !ValidID(id) {
		return Secret{}, fmt.Errorf("env %q or id %q: not those of a key", env, id)
	}
	body := prefix + env + "_" + id + randomText(secretLen-IDLen)
	return Parse(body + checksum(body))
}

// Parse reads a key. It fails with ErrMalformed, which does not say why.
func Parse(text string) (Secret, error) {
	if len(text) > MaxLen || !strings.HasPrefix(text, prefix) {
		return Secret{}, ErrMalformed
	}
	env, secret, found := strings.Cut(text[len(prefix):], "_")
	if !found || !ValidEnv(env) || len(secret) != secretLen+checksumLen || !isBase62(secret) {
		return Secret{}, ErrMalformed
	}
	if body := text[:len(text)-checksumLen]; checksum(body) != text[len(body):] {
		return Secret{}, ErrMalformed
	}
	return Secret{text: text, id: secret[:IDLen]}, nil
}

// ValidEnv reports whether env is valid in a key.
func ValidEnv(env string) bool {
	return len(env) >= 1 && len(env) <= maxEnvLen &&
		strings.Trim(env, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// ValidID reports whether id has the form of a key's id.
func ValidID(id string) bool { return len(id) == IDLen && isBase62(id) }

// ID returns the key's public id.
func (s Secret) ID() string { return s.id }

// Foreign reports whether another system made the key, so that it has no checksum.
func (s Secret) Foreign() bool { return s.foreign }

// Reveal returns the key's whole text. Its owner sees it once.
func (s Secret) Reveal() string { return s.text }

// String hides the secret: it returns only the id.
func (s Secret) String() string { return "key " + s.id }

// GoString hides the secret as String does.
func (s Secret) GoString() string { return s.String() }

// Pepper is the secret that keys are hashed with. It is in the configuration, never in
// Valkey.
type Pepper []byte

// NewPepper returns text as a pepper, if it is long enough.
func NewPepper(text string) (Pepper, error) {
	if len(text) < MinPepperLen {
		return nil, fmt.Errorf("pepper has %d characters: must have at least %d", len(text), MinPepperLen)
	}
	return Pepper(text), nil
}

// String hides the pepper.
func (p Pepper) String() string { return "pepper" }

// GoString hides the pepper.
func (p Pepper) GoString() string { return "pepper" }

// Hash returns the HMAC-SHA-256 of the key under the pepper.
func (p Pepper) Hash(s Secret) [sha256.Size]byte {
	mac := hmac.New(sha256.New, p)
	mac.Write([]byte(s.text))
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return sum
}

// Derive returns a key for a purpose other than hashing API keys. It reveals nothing
// about the pepper. No purpose begins as API keys do.
func (p Pepper) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, p)
	mac.Write([]byte("tidegate: " + purpose))
	return mac.Sum(nil)
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [checksumLen]byte
	for i := checksumLen - 1; i >= 0; i-- {
		out[i] = alphabet[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// randomText returns n uniformly random base62 characters. It discards bytes above the
// last multiple of 62.
func randomText(n int) string {
	const fair = 256 - 256%62
	out := make([]byte, 0, n)
	var b [64]byte
	for len(out) < n {
		_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the program instead
		for _, c := range b {
			if c < fair && len(out) < n {
				out = append(out, alphabet[c%62])
			}
		}
	}
	return string(out)
}
