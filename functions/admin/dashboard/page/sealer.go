package page

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
)

// Sealer encrypts values that a later request of the same user sends back. Anybody else
// who reads them, in transit or in Valkey, can neither decrypt nor change them.
type Sealer struct{ aead cipher.AEAD }

// NewSealer returns a Sealer whose key derives from the pepper.
func NewSealer(pepper apikey.Pepper) (*Sealer, error) {
	block, err := aes.NewCipher(pepper.Derive("what a later request gets back"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead}, err
}

// sealed is the plaintext of Seal.
type sealed struct {
	Until int64 // second of the Unix epoch
	Value json.RawMessage
}

// Seal encrypts a value for Open with the same label, which decrypts it until life has
// passed.
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

// Open decrypts a text that Seal returned for this label into value. It reports false for
// any other text, and for one whose life has passed.
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

// The request that creates a secret redirects to the page that shows it, so that a reload
// creates no second one. In between, the session holds the sealed secret: unlike a
// cookie, the server can delete it there after one use. A copy of Valkey's data does not
// reveal it.

const (
	secretPrefix = "secret:"       // of the session values that hold a secret
	secretLife   = 5 * time.Minute // to load the page that shows it
	maxSecrets   = 5               // in a session
)

// secretLabel binds a secret to the user who requested it and to the name it is stored
// by.
func secretLabel(r *http.Request, name string) string {
	return "secret\n" + auth.From(r.Context()).ID + "\n" + name
}

// StoreSecret stores a secret in the session, for the next page. name is a key's id, or
// another name that identifies the secret. If the session has maxSecrets, they are
// removed.
func (rd *Renderer) StoreSecret(r *http.Request, name, secret string) error {
	text, err := rd.Sealer.Seal(secretLabel(r, name), secret, secretLife)
	if err != nil {
		return err
	}
	ctx := r.Context()
	stored := slices.DeleteFunc(rd.Session.Keys(ctx), func(key string) bool {
		return !strings.HasPrefix(key, secretPrefix)
	})
	if len(stored) >= maxSecrets {
		for _, key := range stored {
			rd.Session.Remove(ctx, key)
		}
	}
	rd.Session.Put(ctx, secretPrefix+name, text)
	return nil
}

// TakeSecret removes a secret from the session and returns it. It reports false if there
// is none or it has expired.
func (rd *Renderer) TakeSecret(r *http.Request, name string) (secret string, ok bool) {
	text := rd.Session.PopString(r.Context(), secretPrefix+name)
	ok = text != "" && rd.Sealer.Open(secretLabel(r, name), text, &secret)
	return secret, ok
}
