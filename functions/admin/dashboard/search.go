package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/web/templates"
)

// searches holds the pages with a form that searches for a key, by the form's name. field
// is the form field with the key; others are the remaining fields. The forms are posted
// to search, so that a pasted secret appears in no address and no browser history.
var searches = map[string]struct {
	path, field string
	others      []string
}{
	"":        {"/keys", "q", []string{"tag", "group", "plan", "state", "order", "prefix", "live"}},
	"explain": {"/explain", "key", []string{"method", "path", "api", "stage", "address", "forwarded"}},
	"audit":   {"/audit", "subject", []string{"action", "by", "change", "from", "to", "range"}},
	"find":    {"/search", "q", nil},
}

// search redirects to the form's page with the typed text, or with the key's id if the
// text is an id or a secret. From the key list and the search for anything, it redirects to
// the page of such a key. The palette gets the results in place of a redirect.
func (d *dashboard) search(w http.ResponseWriter, r *http.Request) error {
	if err := page.ParseForm(r); err != nil {
		return err
	}
	on := r.PostForm.Get("on")
	s, known := searches[on]
	if !known {
		return page.Problem{Status: http.StatusBadRequest}
	}
	typed := strings.TrimSpace(r.PostForm.Get(s.field))
	if on == "find" && page.IsRefresh(r) {
		results, err := d.find(r, typed)
		if err != nil {
			return page.Failed("search", err)
		}
		return d.Render(w, r, http.StatusOK, templates.Results(results))
	}
	found, err := d.Keys.ResolveKey(r.Context(), typed)
	if err != nil {
		return page.Failed("find key", err)
	}
	if note := secretNote(found); note != "" {
		d.Flash(r, note, "")
	}
	if found.Key.ID != "" && (on == "" || on == "find") {
		return page.Redirect(w, r, d.keyPath(found.Key))
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
	return page.Redirect(w, r, page.Address(d.Path(s.path), query))
}

const noSuchKey = "No key has this secret."

// redirectSecret redirects from an address that contains a secret to the page of its key,
// or to the key list if no key has it.
func (d *dashboard) redirectSecret(w http.ResponseWriter, r *http.Request, secret string) error {
	found, err := d.Keys.ResolveKey(r.Context(), secret)
	to := d.Path("/keys")
	switch {
	case err != nil:
		return page.Failed("find key", err)
	case found.Key.ID != "":
		to = d.keyPath(found.Key)
		if note := secretNote(found); note != "" {
			d.Flash(r, note, "")
		}
	default:
		d.Flash(r, noSuchKey, "")
	}
	return page.Redirect(w, r, to)
}
