package page

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
)

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
	text, err := rd.Sealer.Seal(secretLabel(r, name), secret, time.Now().Add(secretLife))
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
	ok = text != "" && rd.Sealer.Open(secretLabel(r, name), text, &secret, time.Now())
	return secret, ok
}
