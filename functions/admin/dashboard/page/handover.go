package page

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/auth"
)

// A new secret is shown by the page that the request for it leads to, so that a reload
// asks for no second one. Until then it waits in the session, sealed: one-use needs a
// place where the server can take it away, which a cookie is not; and a copy of Valkey's
// data does not open it.

const (
	handOverPrefix = "secret:"       // of names in a session, before what the secret is of
	handOverLife   = 5 * time.Minute // in which the next page takes it
	maxHandOver    = 5               // secrets that wait in a session
)

// handOverLabel binds a secret to who asked for it and what it is of.
func handOverLabel(r *http.Request, of string) string {
	return "secret\n" + auth.From(r.Context()).ID + "\n" + of
}

// StoreSecret leaves a secret for the next page. Those that no page took are forgotten once
// there are maxHandOver of them.
func (rd *Renderer) StoreSecret(r *http.Request, of, secret string) error {
	text, err := rd.Sealer.Seal(handOverLabel(r, of), secret, handOverLife)
	if err != nil {
		return err
	}
	ctx := r.Context()
	waiting := slices.DeleteFunc(rd.Session.Keys(ctx), func(name string) bool {
		return !strings.HasPrefix(name, handOverPrefix)
	})
	if len(waiting) >= maxHandOver {
		for _, name := range waiting {
			rd.Session.Remove(ctx, name)
		}
	}
	rd.Session.Put(ctx, handOverPrefix+of, text)
	return nil
}

// TakeSecret returns the secret of something, once.
func (rd *Renderer) TakeSecret(r *http.Request, of string) (string, bool) {
	text := rd.Session.PopString(r.Context(), handOverPrefix+of)
	secret := ""
	taken := text != "" && rd.Sealer.Open(handOverLabel(r, of), text, &secret)
	return secret, taken
}
