package page

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"tidegate/internal/apikey"
)

// Sealer encrypts what a later request of the same person gets back, so that whoever
// reads it on the way, or in Valkey, learns nothing and can change nothing.
type Sealer struct {
	aead cipher.AEAD
	mark []byte // key of Mark
}

// NewSealer derives the key of a Sealer.
func NewSealer(pepper apikey.Pepper) (*Sealer, error) {
	block, err := aes.NewCipher(pepper.Derive("what a later request gets back"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead, pepper.Derive("who gets something back")}, err
}

// Mark stands for a text that it does not reveal.
func (s *Sealer) Mark(text string) string {
	mac := hmac.New(sha256.New, s.mark)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sealed is what is encrypted.
type sealed struct {
	Until int64 // second of the Unix epoch
	Value json.RawMessage
}

// Seal encrypts a value, which can be opened for life under the same label.
func (s *Sealer) Seal(label string, value any, life time.Duration) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(sealed{time.Now().Add(life).Unix(), raw})
	if err != nil {
		return "", err
	}
	//nolint:gosec // the AEAD makes its nonces at random: see cipher.NewGCMWithRandomNonce
	raw = s.aead.Seal(nil, nil, text, []byte(label))
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// Open decrypts what was sealed under this label. It reports false for anything else, and
// when its time is over.
func (s *Sealer) Open(label, text string, value any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, raw, []byte(label))
	if err != nil {
		return false
	}
	var opened sealed
	return json.Unmarshal(plain, &opened) == nil && time.Now().Unix() < opened.Until &&
		json.Unmarshal(opened.Value, value) == nil
}
