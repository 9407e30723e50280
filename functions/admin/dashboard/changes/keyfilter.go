package changes

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// MaxSearch is the length of a search in characters.
const MaxSearch = 100

// anywhere is the value of the field "in" that searches names anywhere, not at the start.
const anywhere = "name"

// KeyStates are the states that a list of keys can be filtered by, as on badges.
var KeyStates = []templates.Option{
	{Value: "", Text: "any state"},
	{Value: string(app.Overridden), Text: "overridden"},
	{Value: string(app.Blocked), Text: "blocked now"},
	{Value: string(app.Near), Text: "near a limit"},
	{Value: string(app.Shadow), Text: "in shadow, or off"},
	{Value: string(app.Banned), Text: "banned"},
	{Value: string(app.Expiring), Text: "expired, or expiring"},
	{Value: string(app.Revoked), Text: "revoked"},
	{Value: string(app.Unreadable), Text: "unreadable"},
}

// ReadKeyFilter reads a filter of keys from an address. It reports false for a filter
// that is not valid.
func ReadKeyFilter(q url.Values) (app.KeyFilter, bool) {
	f := app.KeyFilter{Prefix: strings.TrimSpace(q.Get("q")), Anywhere: q.Get("in") == anywhere,
		Tag: strings.TrimSpace(q.Get("tag")), Group: strings.TrimSpace(q.Get("group")),
		State: app.State(q.Get("state"))}
	if plan := q.Get("plan"); plan != "" {
		n, err := strconv.Atoi(plan)
		if err != nil || n < 1 {
			return f, false
		}
		f.Plan = n
	}
	return f, utf8.RuneCountInString(f.Prefix) <= MaxSearch &&
		utf8.RuneCountInString(f.Tag) <= policy.MaxTagLen && len(f.Group) <= policy.MaxGroupLen &&
		(f.State == "" || slices.Contains(app.States(), f.State))
}

// FilterValues returns the query of an address with a filter.
func FilterValues(f app.KeyFilter) url.Values {
	v := url.Values{"q": {f.Prefix}, "tag": {f.Tag}, "group": {f.Group}, "state": {string(f.State)}}
	if f.Anywhere {
		v.Set("in", anywhere)
	}
	if f.Plan > 0 {
		v.Set("plan", strconv.Itoa(f.Plan))
	}
	return v
}
