package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
)

// searches are the pages whose forms ask for a key, by the field that names it, and the
// other fields of each form. All send them here, so that a pasted secret is in no address
// and no history.
var searches = map[string]struct {
	path, field string
	others      []string
}{
	"":        {"/keys", "q", []string{"in", "tag", "group", "plan", "state", "order", "live"}},
	"explain": {"/explain", "key", []string{"method", "path", "api", "stage", "address"}},
	"audit":   {"/audit", "subject", []string{"what", "by", "from", "to"}},
}

// search leads to what a search means: on the page of the form the key whose id, secret
// or name was typed, else what the page says to that text.
func (d *dashboard) search(w http.ResponseWriter, r *http.Request) {
	if !d.ParseForm(w, r) {
		return
	}
	on := r.PostForm.Get("on")
	s, known := searches[on]
	if !known {
		d.Fail(w, r, page.Problem{Status: http.StatusBadRequest})
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get(s.field))
	found, err := d.Keys.ResolveKey(r.Context(), typed)
	if err != nil {
		d.FailStore(w, r, "find key", err)
		return
	}
	if found.Key.ID != "" && on == "" {
		http.Redirect(w, r, d.keyPath(found.Key), http.StatusSeeOther)
		return
	}
	query := url.Values{s.field: {typed}}
	switch {
	case found.Key.ID != "":
		query.Set(s.field, found.Key.ID)
	case found.Secret:
		d.Flash(r, noSuchKey, "")
		query.Del(s.field)
	}
	for _, name := range s.others {
		query.Set(name, r.PostForm.Get(name))
	}
	http.Redirect(w, r, page.Address(d.Path(s.path), query), http.StatusSeeOther)
}

const noSuchKey = "No key has this secret."

// leadToSecret leads away from an address that has a secret, to the key's page or the
// list, and reports whether it did.
func (d *dashboard) leadToSecret(w http.ResponseWriter, r *http.Request, typed string) bool {
	if !app.LooksLikeSecret(typed) {
		return false
	}
	at := d.Path("/keys")
	found, err := d.Keys.ResolveKey(r.Context(), typed)
	switch {
	case err != nil:
		d.FailStore(w, r, "find key", err)
		return true
	case found.Key.ID != "":
		at = d.keyPath(found.Key)
	default:
		d.Flash(r, noSuchKey, "")
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
	return true
}
