// Package apikey generates, parses and hashes API keys. It also makes the ids of callers
// without a key: the subject of a token, the clients of an address. Packages that
// identify callers or store keys import it. It does no I/O.
//
// A key is tg_<env>_<secret><checksum>. env has 1 to 16 lower-case letters or digits. The
// secret has 43 base62 characters (256 random bits). The checksum has 6 base62 characters
// (CRC-32 of the text before it), so that a mistyped or made-up key is refused without a
// look-up. The first 12 characters of the secret are the key's public id, which names the
// key in logs, pages and Valkey. Valkey stores an HMAC-SHA-256 of the whole text.
// Key.Foreign parses keys that another system made.
package apikey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
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

// ErrMalformed means that a text is not an API key: its form or its checksum is wrong.
var ErrMalformed = errors.New("malformed API key")

// Secret is a well-formed API key. Formatting it hides its text; Reveal returns it.
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
	return newSecret(prefix+env+"_", randomText(secretLen)), nil
}

// Renew returns a new random key for env with the id of another key. 31 characters are
// new, 184 random bits.
func Renew(env, id string) (Secret, error) {
	if !ValidEnv(env) || !ValidID(id) {
		return Secret{}, fmt.Errorf("env %q or id %q: not valid in a key", env, id)
	}
	return newSecret(prefix+env+"_", id+randomText(secretLen-IDLen)), nil
}

// Repeated returns the key that a request with this name always gives as change number of
// the log. An empty id stands for the one that the name gives. Who does not have the pepper
// and the name cannot tell the key from a random one.
func (p Pepper) Repeated(env, id, name string, number uint64) (Secret, error) {
	if id == "" {
		id = p.text(IDLen, "id", name, 0)
	}
	if !ValidEnv(env) || !ValidID(id) {
		return Secret{}, fmt.Errorf("env %q or id %q: not valid in a key", env, id)
	}
	return newSecret(prefix+env+"_", id+p.text(secretLen-IDLen, "secret", name, number)), nil
}

// text returns n characters that follow from a purpose, a name and a number.
func (p Pepper) text(n int, purpose, name string, number uint64) string {
	mac := hmac.New(sha256.New, p.Derive("repeated "+purpose))
	block := uint64(0)
	return base62(n, func(b []byte) {
		for i := range len(b) / sha256.Size {
			mac.Reset()
			block++
			var numbers [16]byte
			binary.BigEndian.PutUint64(numbers[:8], number)
			binary.BigEndian.PutUint64(numbers[8:], block)
			mac.Write(numbers[:])
			mac.Write([]byte(name))
			copy(b[i*sha256.Size:], mac.Sum(nil))
		}
	})
}

// newSecret returns the Secret with a head, such as "tg_live_", and a secret of secretLen
// characters.
func newSecret(head, secret string) Secret {
	body := head + secret
	return Secret{text: body + checksum(body), id: secret[:IDLen]}
}

// Parse parses a key. It returns ErrMalformed, which does not say why.
func Parse(text string) (Secret, error) {
	if len(text) > MaxLen || !strings.HasPrefix(text, prefix) {
		return Secret{}, ErrMalformed
	}
	env, secret, found := strings.Cut(text[len(prefix):], "_")
	if !found || !ValidEnv(env) {
		return Secret{}, ErrMalformed
	}
	return parseSecret(text, secret)
}

// parseSecret returns the Secret of a text that ends with a secret and its checksum.
func parseSecret(text, secret string) (Secret, error) {
	if len(secret) != secretLen+checksumLen || !isBase62(secret) {
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

// Reveal returns the key's whole text. The dashboard and the API show it once.
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
// about the pepper. The text that it hashes never begins as API keys do.
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
	return base62(n, func(b []byte) { _, _ = rand.Read(b) }) // never fails: it crashes the program instead
}

// base62 returns n characters of uniform bytes that fill gives.
func base62(n int, fill func([]byte)) string {
	const fair = 256 - 256%62
	out := make([]byte, 0, n)
	var b [64]byte
	for len(out) < n {
		fill(b[:])
		for _, c := range b {
			if c < fair && len(out) < n {
				out = append(out, alphabet[c%62])
			}
		}
	}
	return string(out)
}

// GeneratePlain returns a new random secret without an env: prefix, 43 base62 characters,
// checksum. It has an id and is hashed like an API key. Its prefix distinguishes it from
// API keys.
func GeneratePlain(prefix string) Secret {
	return newSecret(prefix, randomText(secretLen))
}

// ParsePlain parses a secret of GeneratePlain with the same prefix. It returns
// ErrMalformed, which does not say why.
func ParsePlain(prefix, text string) (Secret, error) {
	secret, found := strings.CutPrefix(text, prefix)
	if !found {
		return Secret{}, ErrMalformed
	}
	return parseSecret(text, secret)
}

// Bounds of a foreign value, the text of a key that another system made.
const (
	MinForeignLen      = 20
	MaxForeignLen      = 256
	MinForeignDistinct = 10 // number of different characters
)

// The reasons why a text is not a foreign value. Their messages do not contain the text.
var (
	errForeignLen = fmt.Errorf("must have %d to %d characters", MinForeignLen, MaxForeignLen)
	errForeignSet = errors.New("must have only printable ASCII characters, without spaces and commas")
	errDistinct   = fmt.Errorf("must have at least %d different characters: it is easy to guess",
		MinForeignDistinct)
	errOwnForm = errors.New("must not begin like a Tidegate key or token: leave it out to create a new key")
)

// Foreign parses a foreign value. Its id is an HMAC of the whole value, so a check finds
// the record with one look-up, as for other keys. The id is public and reveals nothing
// about the value without the pepper. The text of that HMAC ("key", NUL, value) differs
// from the texts of opaque, which begin with a length. The value is hashed like other
// keys. It differs from the texts of Derive, which contain a space.
func (k Key) Foreign(text string) (Secret, error) {
	if err := foreignProblem(text); err != nil {
		return Secret{}, err
	}
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte("key\x00" + text))
	sum := mac.Sum(nil)
	var id [IDLen]byte
	for i := range id {
		id[i] = alphabet[binary.BigEndian.Uint16(sum[2*i:])%62]
	}
	return Secret{text: text, id: string(id[:]), foreign: true}, nil
}

func foreignProblem(text string) error {
	if len(text) < MinForeignLen || len(text) > MaxForeignLen {
		return errForeignLen
	}
	var seen [128]bool
	distinct := 0
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c > '~' || c == ',' {
			return errForeignSet
		}
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	switch head := strings.ToLower(text[:len(prefix)+1]); {
	case strings.HasPrefix(head, prefix), head == "tga_", head == "tgr_":
		return errOwnForm
	case distinct < MinForeignDistinct:
		return errDistinct
	}
	return nil
}
