// Package seal encrypts values that the browser or Valkey keeps between two requests.
// Anybody else who reads them can neither decrypt nor change them.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"tidegate/internal/apikey"
)

// Sealer seals and opens values by a key that derives from the pepper. It is safe for
// concurrent use.
type Sealer struct{ aead cipher.AEAD }

// New returns a Sealer.
func New(pepper apikey.Pepper) *Sealer {
	block, _ := aes.NewCipher(pepper.Derive("what a later request gets back")) // Derive returns 32 bytes
	aead, _ := cipher.NewGCMWithRandomNonce(block)                             // AES has blocks of 16 bytes
	return &Sealer{aead}
}

// sealed is the plaintext of Seal.
type sealed[T any] struct {
	Until int64 `json:"x"` // second of the Unix epoch
	Value T     `json:"v"`
}

// Seal encrypts a value, which JSON can write, for Open with the same label, which decrypts
// it before until.
func (s *Sealer) Seal(label string, value any, until time.Time) (string, error) {
	var text bytes.Buffer
	plain := json.NewEncoder(&text)
	plain.SetEscapeHTML(false) // escaped, an address with many parameters would exceed a cookie
	if err := plain.Encode(sealed[any]{until.Unix(), value}); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	//nolint:gosec // the AEAD makes its nonces at random: see cipher.NewGCMWithRandomNonce
	raw := s.aead.Seal(nil, nil, text.Bytes(), []byte(label))
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// Open decrypts a text that Seal returned for this label into value. It reports false for
// any other text, and for one whose time has passed.
func (s *Sealer) Open(label, text string, value any, now time.Time) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, raw, []byte(label))
	if err != nil {
		return false
	}
	var opened sealed[json.RawMessage]
	return json.Unmarshal(plain, &opened) == nil && now.Unix() < opened.Until &&
		json.Unmarshal(opened.Value, value) == nil
}
