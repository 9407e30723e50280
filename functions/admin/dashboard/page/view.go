package page

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/web/templates"
)

// The view of a page with live figures is its period and its refresh interval. The
// address has the parameters; a cookie supplies those that the address lacks.
const (
	viewCookie = "tidegate-view"
	liveField  = "live"
	// chosenAge is the age of a cookie with a period from and to. With a range that ends
	// now the age is ThemeAge.
	chosenAge = time.Hour
	maxView   = 200 // bytes of the cookie's value
)

var timeFields = []string{"range", "from", "to"}

// View returns the parameters of the view: range, or from and to, and live.
func View(r *http.Request) url.Values {
	query := r.URL.Query()
	cookie := readViewCookie(r)
	view := url.Values{}
	copyFields(view, cookie, liveField)
	copyFields(view, query, liveField)
	if !copyFields(view, query, timeFields...) {
		copyFields(view, cookie, timeFields...)
	}
	return view
}

func readViewCookie(r *http.Request) url.Values {
	c, err := r.Cookie(viewCookie)
	if err != nil || len(c.Value) > maxView {
		return nil
	}
	view, _ := url.ParseQuery(c.Value) // omits what it cannot parse
	return view
}

// copyFields copies the named values and reports whether there are any.
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

// Remember stores the view of the address in the cookie, unless the request is a refresh.
func (rd *Renderer) Remember(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	view := View(r).Encode()
	if !slices.ContainsFunc(append(timeFields, liveField), q.Has) || IsRefresh(r) || len(view) > maxView ||
		strings.ContainsAny(view, `;," \`) {
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

// livePeriods are the seconds between refreshes to choose from; 0 is off.
var livePeriods = []int{0, 2, 5, 10, 30}

// defaultLive is the seconds between refreshes without a choice.
const defaultLive = 5

// LiveSeconds returns the seconds between refreshes in a page's view; 0 is off.
func LiveSeconds(r *http.Request) int {
	chosen := View(r).Get(liveField)
	for _, p := range livePeriods {
		if chosen == strconv.Itoa(p) {
			return p
		}
	}
	return defaultLive
}

// Live returns the control of a page's refresh. query holds the page's other parameters,
// already validated; now is the time of its figures.
func (rd *Renderer) Live(r *http.Request, path string, query url.Values, now time.Time) templates.Live {
	seconds := LiveSeconds(r)
	l := templates.Live{
		Nonce: nonceOf(r), Seconds: seconds, AsOf: Instant(now), Outage: Outage, Denied: rd.deniedNow(r),
		Self: Address(path, WithLive(query, seconds)),
	}
	for _, p := range livePeriods {
		text := "Pause"
		if p > 0 {
			text = "Every " + strconv.Itoa(p) + " seconds"
		}
		l.Choices = append(l.Choices, templates.Choice{
			Text: text, Address: Address(path, WithLive(query, p)), Current: p == seconds,
		})
	}
	return l
}

// WithLive returns the query with the refresh added.
func WithLive(query url.Values, seconds int) url.Values {
	q := url.Values{liveField: {strconv.Itoa(seconds)}}
	maps.Copy(q, query)
	return q
}
