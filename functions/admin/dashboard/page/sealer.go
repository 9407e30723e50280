package page

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/web/templates"
)

// Sealer encrypts values that a later request of the same user sends back. Anybody else
// who reads them, in transit or in Valkey, can neither decrypt nor change them.
type Sealer struct {
	aead    cipher.AEAD
	markKey []byte
}

// NewSealer returns a Sealer whose keys derive from the pepper.
func NewSealer(pepper apikey.Pepper) (*Sealer, error) {
	block, err := aes.NewCipher(pepper.Derive("what a later request gets back"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead, pepper.Derive("who gets something back")}, err
}

// Mark returns a keyed hash that identifies text without revealing it.
func (s *Sealer) Mark(text string) string {
	mac := hmac.New(sha256.New, s.markKey)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
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

// If the session ended or Valkey is unavailable, the error page contains the sent form,
// sealed; the server stores nothing. When the same user posts it to /resume, the form is
// shown again as it was typed. A cookie that the log-in sets identifies the user; without
// the cookie no form is kept.

// Resume is the value of the button that shows a form again as it was typed, without a
// save.
const Resume = "resume"

// KeptField is the name of the field with the sealed form.
const KeptField = "kept"

const (
	keptLife  = 2 * time.Hour
	maxKept   = 60_000 // bytes of a sealed form, which the log-in form contains
	keptLabel = "form\n"
)

// keptForm is a sent form that was not processed.
type keptForm struct {
	Path   string
	Values url.Values
}

// unkept are the fields that are never kept.
var unkept = []string{"password", "secret", "key", "value", "action", KeptField}

// Keep seals the request's form for its owner. It returns an empty string without an
// owner or fields to keep, and for a form that is too large. It omits fields that may
// hold a secret.
func (rd *Renderer) Keep(r *http.Request) string {
	if rd.Sealer == nil || !rd.Resumes(r) || r.ParseForm() != nil {
		return ""
	}
	owner, err := r.Cookie(rd.OwnerCookie)
	if err != nil || owner.Value == "" {
		return ""
	}
	form := keptForm{Path: r.URL.RequestURI(), Values: url.Values{}}
	for name, values := range r.PostForm {
		if !slices.Contains(unkept, name) && !slices.ContainsFunc(values, hasSecret) {
			form.Values[name] = values
		}
	}
	if len(form.Values) == 0 {
		return ""
	}
	text, err := rd.Sealer.Seal(keptLabel+owner.Value, form, keptLife)
	if err != nil {
		rd.log.Error("keep form", "cause", err)
		return ""
	}
	if len(text) > maxKept {
		return ""
	}
	return text
}

// hasSecret reports whether a field is an API key or contains a machine token.
func hasSecret(text string) bool {
	_, err := apikey.Parse(strings.TrimSpace(text))
	return err == nil || strings.Contains(text, "tga_")
}

// openKept opens a form that was kept for the user with this id.
func (rd *Renderer) openKept(id, text string) (form keptForm, ok bool) {
	ok = text != "" && rd.Sealer.Open(keptLabel+rd.Owner(id), text, &form) &&
		rd.LocalPath(form.Path) == form.Path
	return form, ok
}

// IsKeptFor reports whether text is a form that was kept for the user with this id.
func (rd *Renderer) IsKeptFor(id, text string) bool {
	_, ok := rd.openKept(id, text)
	return ok
}

// Owner returns the value of the owner cookie, which hides the user's id.
func (rd *Renderer) Owner(id string) string { return rd.Sealer.Mark("owner\n" + id) }

// ShowKept responds with a page that sends a kept form back to the page where it was
// typed. Only its owner can open it.
func (rd *Renderer) ShowKept(w http.ResponseWriter, r *http.Request, text string) error {
	form, ok := rd.openKept(auth.From(r.Context()).ID, text)
	if !ok {
		return Problem{
			Status: http.StatusGone, Heading: "Your input is no longer available",
			Advice: "Unsaved input is kept for 2 hours, for the user who entered it.",
		}
	}
	p := templates.KeptPage{Page: rd.Page(r, "Continue your edit"), Action: form.Path, Button: Resume}
	for name, values := range form.Values {
		for _, v := range values {
			p.Hidden = append(p.Hidden, templates.Hidden{Name: name, Value: v})
		}
	}
	return rd.Render(w, r, http.StatusOK, templates.Kept(p))
}
