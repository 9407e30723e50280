package jwt

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // for hashes
	_ "crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set.
const (
	MaxKeySetLen = 1 << 20 // bytes
	MaxKeys      = 256
	maxTried     = 8 // keys that are tried for one token
	minRSABits   = 2048
	maxRSABits   = 8192 // a larger key takes too long to verify
)

// KeySet has the public keys of an issuer. The zero value has none.
type KeySet struct {
	keys    []key
	skipped []string // the keys that were left out, each with the reason
}

// key is a public key that verifies tokens.
type key struct {
	id         string
	algorithms []jose.SignatureAlgorithm
	public     any
}

// The algorithms of each kind of key. Ed25519 is the name of RFC 9864 for EdDSA with this
// curve.
var (
	rsaAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384,
		jose.PS512}
	ed25519Algorithms = []jose.SignatureAlgorithm{jose.EdDSA, "Ed25519"}
	curveAlgorithms   = map[string]jose.SignatureAlgorithm{"P-256": jose.ES256, "P-384": jose.ES384,
		"P-521": jose.ES512}
)

// ParseKeys parses a JSON Web Key Set. It leaves out keys that cannot verify tokens:
// private and symmetric keys, keys for encryption, other curves or algorithms, and RSA
// keys under 2048 or over 8192 bits. If no key remains, its error says why.
//
// It does not read certificates (x5c and the like): a key has its numbers beside them.
func ParseKeys(text []byte) (KeySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(text) > MaxKeySetLen {
		return KeySet{}, fmt.Errorf("key set has %d bytes: must have at most %d", len(text), MaxKeySetLen)
	}
	if instead := insteadOfKeys(text); instead != "" {
		return KeySet{}, errors.New(instead)
	}
	if err := json.Unmarshal(text, &set); err != nil {
		// The cause is left out because it could quote a secret.
		return KeySet{}, errors.New(`key set is not JSON of the form {"keys": […]}`)
	}
	if len(set.Keys) > MaxKeys {
		return KeySet{}, fmt.Errorf("key set has %d keys: must have at most %d", len(set.Keys), MaxKeys)
	}
	var s KeySet
	for i, raw := range set.Keys {
		k, err := parseKey(raw)
		if err != nil {
			s.skipped = append(s.skipped, fmt.Sprintf("key %d %.40q %s", i+1, k.id, err))
			continue
		}
		s.keys = append(s.keys, k)
	}
	if s.Len() == 0 {
		return KeySet{}, fmt.Errorf("key set has no usable key among %d: %s", len(set.Keys),
			strings.Join(s.skipped[:min(len(s.skipped), maxTried)], ", "))
	}
	return s, nil
}

// insteadOfKeys says what a text is that operators take for a key set, and where to find
// one; empty for all else.
func insteadOfKeys(text []byte) string {
	var members map[string]json.RawMessage
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return "has certificates or keys in PEM: set the URL of the issuer's JSON Web Key Set"
	}
	if json.Unmarshal(text, &members) != nil || members["keys"] != nil || members["jwks_uri"] == nil {
		return ""
	}
	var uri string
	_ = json.Unmarshal(members["jwks_uri"], &uri) // another form leaves it empty
	return fmt.Sprintf("is the issuer's discovery document: set the URL that it names as jwks_uri, %.200q",
		uri)
}

// Len returns the number of keys.
func (s KeySet) Len() int { return len(s.keys) }

// parameters are the members of a JSON Web Key that say what the key is for.
type parameters struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	ID        any    `json:"kid"` // text, but some issuers count
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

// numbers are the members that are a public key, by its type. All others are left unread.
var numbers = map[string][]string{"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}}

// parseKey parses a JSON Web Key. Its error says why the key cannot verify tokens, and
// quotes nothing that could be secret.
func parseKey(raw []byte) (key, error) {
	var p parameters
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(raw, &p) != nil {
		return key{}, errors.New("is not a JSON Web Key")
	}
	k := key{id: named(p.ID)}
	switch {
	case p.Type == "oct":
		return k, errors.New("is symmetric")
	case members["d"] != nil:
		return k, errors.New("is a private key: issuers publish the public part only")
	case p.Use != "" && p.Use != "sig":
		return k, fmt.Errorf("has use %.20q, not sig", p.Use)
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool {
		return name != "kty" && !slices.Contains(numbers[p.Type], name)
	})
	text, _ := json.Marshal(members) // what was decoded encodes
	var parsed jose.JSONWebKey
	if err := parsed.UnmarshalJSON(text); err != nil {
		return k, fmt.Errorf("has kty %.20q and crv %.20q, or numbers, that cannot be used", p.Type, p.Curve)
	}
	k.public = parsed.Key
	if err := k.fit(p); err != nil {
		return k, err
	}
	return k, nil
}

// fit sets the algorithms: those of the key's type, or the one that the key names.
func (k *key) fit(p parameters) error {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("has %d bits: must have %d to %d", bits, minRSABits, maxRSABits)
		}
		k.algorithms = rsaAlgorithms
	case *ecdsa.PublicKey:
		k.algorithms = []jose.SignatureAlgorithm{curveAlgorithms[public.Params().Name]}
	case ed25519.PublicKey:
		k.algorithms = ed25519Algorithms
		if p.Algorithm == "Ed25519" {
			p.Algorithm = ""
		}
	default:
		return fmt.Errorf("has kty %.20q and crv %.20q, which cannot be used", p.Type, p.Curve)
	}
	switch named := jose.SignatureAlgorithm(p.Algorithm); {
	case named == "" || named == jose.EdDSA && k.algorithms[0] == jose.EdDSA:
	case k.fits(named):
		k.algorithms = []jose.SignatureAlgorithm{named}
	default:
		return fmt.Errorf("has alg %.20q, which its kty and crv do not sign with", p.Algorithm)
	}
	return nil
}

func (k *key) fits(algorithm jose.SignatureAlgorithm) bool {
	return slices.Contains(k.algorithms, algorithm)
}

// hashes are those of the algorithms of RSA and ECDSA, by the end of their names.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// verifies reports whether the key made the signature of a token, whose algorithm fits the
// key.
func (k *key) verifies(t token) bool {
	if public, ok := k.public.(ed25519.PublicKey); ok {
		return ed25519.Verify(public, t.signed, t.signature)
	}
	hash := hashes[string(t.algorithm[2:])]
	h := hash.New()
	h.Write(t.signed)
	sum := h.Sum(nil)
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		if t.algorithm[0] == 'P' {
			return rsa.VerifyPSS(public, hash, sum, t.signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(public, hash, sum, t.signature) == nil
	case *ecdsa.PublicKey:
		size := (public.Params().BitSize + 7) / 8 // of each of the two numbers
		if len(t.signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:])
		return ecdsa.Verify(public, sum, r, s)
	}
	return false
}

// The errors of a key set that has no key for a token. Reading the set again may help.
var (
	errNoKey     = refused("the issuer's set has no key with this kid for this alg")
	errNoKeyFits = refused("the signature fits none of the keys that kid and alg leave possible")
)

func unknownKey(err error) bool { return errors.Is(err, errNoKey) || errors.Is(err, errNoKeyFits) }

// verify verifies a token's signature with the keys that have its key id. If the token
// has none, or no key has it, verify tries the keys that may be meant, at most maxTried.
func (s KeySet) verify(_ context.Context, t token) error {
	var named, others []*key
	for i := range s.keys {
		k := &s.keys[i]
		switch {
		case !k.fits(t.algorithm):
		case t.keyID != "" && k.id == t.keyID:
			named = append(named, k)
		case t.keyID == "" || k.id == "":
			others = append(others, k)
		}
	}
	tried, failure := named, refused("the signature does not fit the issuer's key with this kid")
	if len(named) == 0 {
		tried, failure = others, errNoKeyFits
	}
	if len(tried) == 0 {
		return errNoKey
	}
	for _, k := range tried[:min(len(tried), maxTried)] {
		if k.verifies(t) {
			return nil
		}
	}
	return failure
}
