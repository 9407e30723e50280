package page

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"tidegate/web/templates"
)

// livePeriods are the choices of seconds between two refreshes; 0 is off.
var livePeriods = []int{0, 2, 5, 10, 30}

// usualLive is the refresh of a page that is asked for none.
const usualLive = 5

// LiveSeconds returns the seconds between refreshes that a page's view asks for; 0 is
// off.
func LiveSeconds(r *http.Request) int {
	asked := View(r).Get(liveField)
	for _, p := range livePeriods {
		if asked == strconv.Itoa(p) {
			return p
		}
	}
	return usualLive
}

// Live builds the live control of a page. query is the page's state, already checked.
func (rd *Renderer) Live(r *http.Request, path string, query url.Values, now time.Time) templates.Live {
	seconds := LiveSeconds(r)
	l := templates.Live{
		Nonce: nonceOf(r), Seconds: seconds, AsOf: Instant(now),
		Self: Address(path, WithLive(query, seconds)),
	}
	for _, p := range livePeriods {
		text := "off"
		if p > 0 {
			text = strconv.Itoa(p) + " s"
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
	for name, values := range query {
		q[name] = values
	}
	return q
}

// RenderLive answers a refresh with the live part of a page, and any other request with
// the whole page.
func (rd *Renderer) RenderLive(w http.ResponseWriter, r *http.Request, live, whole templ.Component) {
	if IsRefresh(r) {
		whole = live
	}
	rd.Render(w, r, http.StatusOK, whole)
}
