package page

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/web/templates"
)

// livePeriods are the choices of seconds between two refreshes; 0 is off.
var livePeriods = []int{0, 2, 5, 10, 30}

// LiveSeconds returns the refresh that a page's address asks for, off if it asks for none
// that is offered.
func LiveSeconds(q url.Values) int {
	for _, p := range livePeriods {
		if q.Get("live") == strconv.Itoa(p) {
			return p
		}
	}
	return 0
}

// Live builds the live control of a page. query is the page's state, already checked.
func (rd *Renderer) Live(r *http.Request, path string, query url.Values, now time.Time) templates.Live {
	seconds := LiveSeconds(r.URL.Query())
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

// WithLive returns the query with the refresh added; off needs no word.
func WithLive(query url.Values, seconds int) url.Values {
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	if seconds > 0 {
		q.Set("live", strconv.Itoa(seconds))
	}
	return q
}

// Address joins a path and a query, leaving out parameters that are empty.
func Address(path string, query url.Values) string {
	q := url.Values{}
	for name := range query {
		if v := query.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
