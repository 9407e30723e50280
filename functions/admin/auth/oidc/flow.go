package oidc

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"
)

// FlowLife is the maximum time of a log-in at the provider.
const FlowLife = 10 * time.Minute

// flow is a log-in in progress. The browser holds it sealed in a cookie, so no other
// browser can complete it and nothing is stored before the log-in.
type flow struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Next     string    `json:"x"`
	Ends     time.Time `json:"e"`
}

func newFlow(next string, now time.Time) flow {
	return flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next,
		Ends: now.Add(FlowLife)}
}

// sealer encrypts and authenticates flows.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "tidegate oidc flow", 32)
	if err != nil {
		return sealer{}, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sealer{}, fmt.Errorf("make cipher: %w", err)
	}
	return sealer{aead: aead}, nil
}

func (s sealer) seal(f flow) (string, error) {
	var text bytes.Buffer
	plain := json.NewEncoder(&text)
	plain.SetEscapeHTML(false) // escaped, a query with many parameters would exceed a cookie
	if err := plain.Encode(f); err != nil {
		return "", fmt.Errorf("seal flow: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text.Bytes(), nil)), nil //nolint:gosec // it draws the nonce itself
}

var errSeal = errors.New("the cookie was not sealed with this secret")

func (s sealer) open(sealed string) (flow, error) {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return flow{}, errSeal
	}
	plain, err := s.aead.Open(nil, nil, text, nil)
	if err != nil {
		return flow{}, errSeal
	}
	var f flow
	if err := json.Unmarshal(plain, &f); err != nil {
		return flow{}, errSeal
	}
	return f, nil
}
