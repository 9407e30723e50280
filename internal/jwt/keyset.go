package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set.
const (
	MaxKeySetLen = 256 << 10 // bytes
	MaxKeys      = 64
	minRSABits   = 2048
	maxRSABits   = 8192 // a larger key takes too long to verify
)

// KeySet is the public keys of an issuer. The zero value has none.
type KeySet struct {
	byName map[name]any
	// alone has the key of each algorithm with one key only. A token without a key id
	// uses it.
	alone map[jose.SignatureAlgorithm]any
}

// name identifies a key. An issuer may have two keys with the same id for two algorithms.
type name struct {
	id        string
	algorithm jose.SignatureAlgorithm
}

// ParseKeys parses a JSON Web Key Set. It leaves out keys that cannot verify tokens:
// private and symmetric keys, keys for encryption, other curves or algorithms, and RSA
// keys under 2048 bits. It fails if none is left.
func ParseKeys(text []byte) (KeySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(text) > MaxKeySetLen {
		return KeySet{}, fmt.Errorf("key set has %d bytes: must have at most %d", len(text), MaxKeySetLen)
	}
	if err := json.Unmarshal(text, &set); err != nil {
		// the cause could quote what is secret
		return KeySet{}, errors.New(`key set is not JSON of the form {"keys": […]}`)
	}
	if len(set.Keys) > MaxKeys {
		return KeySet{}, fmt.Errorf("key set has %d keys: must have at most %d", len(set.Keys), MaxKeys)
	}
	s := KeySet{byName: map[name]any{}, alone: map[jose.SignatureAlgorithm]any{}}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil {
			s.add(&key)
		}
	}
	if s.Len() == 0 {
		return KeySet{}, errors.New("key set has no public key for RS256 (2048 bits or more), ES256 or EdDSA")
	}
	return s, nil
}

// Len returns the number of keys.
func (s KeySet) Len() int { return len(s.byName) }

// add adds a key that can verify tokens. Of two with the same id and algorithm the first
// counts.
func (s KeySet) add(key *jose.JSONWebKey) {
	algorithm := algorithmOf(key.Key)
	if algorithm == "" || key.Use != "" && key.Use != "sig" || key.Algorithm != "" &&
		key.Algorithm != string(algorithm) {
		return
	}
	n := name{key.KeyID, algorithm}
	if _, given := s.byName[n]; given {
		return
	}
	s.byName[n] = key.Key
	if _, given := s.alone[algorithm]; given {
		s.alone[algorithm] = nil
	} else {
		s.alone[algorithm] = key.Key
	}
}

// algorithmOf returns the algorithm of a public key, or "" if it is not supported.
func algorithmOf(key any) jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
			return jose.RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return jose.ES256
		}
	case ed25519.PublicKey:
		return jose.EdDSA
	}
	return ""
}

// lookup returns the key that a token names.
func (s KeySet) lookup(id string, algorithm jose.SignatureAlgorithm) (key any, ok bool) {
	if id == "" {
		key = s.alone[algorithm]
	} else {
		key = s.byName[name{id, algorithm}]
	}
	return key, key != nil
}

func (s KeySet) find(_ context.Context, id string, algorithm jose.SignatureAlgorithm) (any, error) {
	if key, ok := s.lookup(id, algorithm); ok {
		return key, nil
	}
	return nil, errUnknownKey
}

var errUnknownKey = refused("signed with a key that the issuer does not list for this algorithm")
