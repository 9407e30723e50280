package page

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A view is what pages with live figures share: the time that they show, and how often
// they refresh. The address says it; a cookie says it where the address does not.
const (
	viewCookie = "tidegate-view"
	liveField  = "live"
	// chosenAge is how long a time that somebody chose is kept. Ranges that end now are
	// kept as long as the theme.
	chosenAge = time.Hour
	maxView   = 200
)

var timeFields = []string{"range", "from", "to"}

// View returns the fields of the view: range, or from and to, and live.
func View(r *http.Request) url.Values {
	view, kept := url.Values{}, keptView(r)
	copyFields(view, kept, liveField)
	copyFields(view, r.URL.Query(), liveField)
	if !copyFields(view, r.URL.Query(), timeFields...) {
		copyFields(view, kept, timeFields...)
	}
	return view
}

func keptView(r *http.Request) url.Values {
	c, err := r.Cookie(viewCookie)
	if err != nil || len(c.Value) > maxView {
		return nil
	}
	kept, _ := url.ParseQuery(c.Value) // what makes no sense is no field
	return kept
}

// copyFields reports whether there was any.
func copyFields(to, from url.Values, names ...string) bool {
	found := false
	for _, name := range names {
		if from.Has(name) {
			to.Set(name, from.Get(name))
			found = true
		}
	}
	return found
}

// Remember keeps the view that the address asks for. A refresh asks for nothing new.
func (rd *Renderer) Remember(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	asked := copyFields(url.Values{}, q, append(timeFields, liveField)...)
	view := View(r).Encode()
	if !asked || IsRefresh(r) || len(view) > maxView || strings.ContainsAny(view, `;," \`) {
		return
	}
	age := ThemeAge
	if q.Has("from") {
		age = int(chosenAge / time.Second)
	}
	http.SetCookie(w, &http.Cookie{
		Name: viewCookie, Value: view, Path: rd.Path("/"), MaxAge: age, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}
