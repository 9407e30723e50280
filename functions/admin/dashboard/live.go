package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/web/templates"
)

// livePeriods are the choices of seconds between two refreshes; 0 is off.
var livePeriods = []int{0, 2, 5, 10, 30}

// liveSeconds returns the refresh that a page's address asks for, off if it asks for none
// that is offered.
func liveSeconds(q url.Values) int {
	for _, p := range livePeriods {
		if q.Get("live") == strconv.Itoa(p) {
			return p
		}
	}
	return 0
}

// live builds the live control of a page. query is the page's state, already checked.
func (rd *renderer) live(r *http.Request, path string, query url.Values, now time.Time) templates.Live {
	seconds := liveSeconds(r.URL.Query())
	l := templates.Live{Nonce: nonceOf(r), Seconds: seconds, AsOf: instant(now), Self: address(path, withLive(query, seconds))}
	for _, p := range livePeriods {
		text := "off"
		if p > 0 {
			text = strconv.Itoa(p) + " s"
		}
		l.Choices = append(l.Choices, templates.Choice{Text: text, Address: address(path, withLive(query, p)), Current: p == seconds})
	}
	return l
}

// withLive returns the query with the refresh added; off needs no word.
func withLive(query url.Values, seconds int) url.Values {
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	if seconds > 0 {
		q.Set("live", strconv.Itoa(seconds))
	}
	return q
}

// address joins a path and a query, leaving out parameters that are empty.
func address(path string, query url.Values) string {
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
