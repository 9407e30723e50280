package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

// search leads to what a search means: the key whose id or secret was typed, else the
// list. It is a POST, so that a pasted secret is in no address and no history.
func (d *dashboard) search(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("q"))
	if d.leadToSecret(w, r, typed) {
		return
	}
	if app.IsID(typed) {
		switch k, err := d.Keys.Get(r.Context(), typed); {
		case err == nil:
			http.Redirect(w, r, d.keyPath(k), http.StatusSeeOther)
			return
		case !isMissing(err):
			d.FailStore(w, r, "find key", err)
			return
		}
	}
	query := url.Values{"q": {typed}}
	for _, name := range []string{"in", "tag", "plan", "state", "order", "live"} {
		query.Set(name, r.PostForm.Get(name))
	}
	http.Redirect(w, r, page.Address(d.Path("/keys"), query), http.StatusSeeOther)
}

// minSecret is from how many characters on a text may be a secret, perhaps mistyped, and
// not the name of a key.
const minSecret = 30

// leadToSecret leads to the key whose secret was typed, and reports whether it was one.
// The id in the secret finds it; whether the secret is valid is not told.
func (d *dashboard) leadToSecret(w http.ResponseWriter, r *http.Request, typed string) bool {
	if !strings.HasPrefix(typed, "tg_") || len(typed) < minSecret {
		return false
	}
	at := d.Path("/keys")
	secret, err := apikey.Parse(typed)
	if err == nil {
		var k policy.Key
		if k, err = d.Keys.Get(r.Context(), secret.ID()); err == nil {
			at = d.keyPath(k)
		} else if !errors.Is(err, policy.ErrNotFound) {
			d.FailStore(w, r, "find key", err)
			return true
		}
	}
	if err != nil {
		d.Flash(r, "No key has this secret.", "")
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
	return true
}
