package dashboard

import (
	"fmt"
	"net/http"
	"regexp"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

var idPattern = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)

// key returns the key that the request's path names.
func (d *dashboard) key(r *http.Request) (policy.Key, error) {
	id := r.PathValue("id")
	if !idPattern.MatchString(id) {
		return policy.Key{}, policy.ErrNotFound
	}
	return d.Keys.Get(r.Context(), id)
}

func (d *dashboard) showKey(w http.ResponseWriter, r *http.Request) {
	key, err := d.key(r)
	if err != nil {
		d.failStore(w, r, "get key", err)
		return
	}
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.failStore(w, r, "read policy", err)
		return
	}
	usage, err := d.Keys.Usage(r.Context(), set, []policy.Key{key})
	if err != nil {
		d.failStore(w, r, "read usage", err)
		return
	}
	page := d.keyPage(r, key, usage[0])
	if isRefresh(r) {
		d.render(w, r, http.StatusOK, templates.KeyLive(page))
		return
	}
	d.render(w, r, http.StatusOK, templates.Key(page))
}

func (d *dashboard) keyPage(r *http.Request, k policy.Key, usage limiter.Decision) templates.KeyPage {
	row := d.keyRow(k, usage, "")
	p := templates.KeyPage{
		Page:    d.page(r, row.Name),
		Live:    d.live(r, d.keyPath(k), nil, usage.Now),
		Key:     row,
		Env:     clip(k.Env, maxName),
		Version: number(k.Version),
		Created: instant(k.Created),
		Updated: instant(k.Updated),
		Source:  sourceWords(k),
	}
	p.Live.Summary = keySummary(row)
	if k.Status == policy.Active && canEdit(r) {
		p.EditLink = d.keyPath(k) + "/limits"
	}
	return p
}

// keySummary is what a screen reader is told of each change.
func keySummary(row templates.KeyRow) string {
	words := "not blocked"
	if row.Blocked != "" {
		words = "blocked now"
	}
	for _, w := range row.Windows {
		words += ", " + w.Used + " of " + w.Of + " used"
	}
	return words
}

func sourceWords(k policy.Key) string {
	plan := clip(k.Plan, maxName)
	if sourceOf(k) == "edited" {
		return fmt.Sprintf("Edited for this key; no longer those of the plan %s. A call needs room in every one.", plan)
	}
	return fmt.Sprintf("From the plan %s. A call needs room in every one.", plan)
}

// keyPath is the address of a key's page. Ids are letters and digits.
func (d *dashboard) keyPath(k policy.Key) string { return d.path("/keys/" + k.ID) }
