package page

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidegate/web/templates"
)

// liveField is the parameter of an address with the seconds between refreshes.
const liveField = "live"

// livePeriods are the seconds between refreshes to choose from; 0 is off.
var livePeriods = []int{0, 2, 5, 10, 30}

// defaultLive is the seconds between refreshes without a choice.
const defaultLive = 5

// LiveSeconds returns the seconds between refreshes that an address asks for; 0 is off.
func LiveSeconds(r *http.Request) int {
	chosen := r.URL.Query().Get(liveField)
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
