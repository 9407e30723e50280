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

// MaxSearch is the maximum length of a search in characters.
const MaxSearch = 100

// anywhere is the value of the field "in" that matches any part of a name, not only its
// start.
const anywhere = "name"

// KeyStates are the states that filter a list of keys, with the texts of badges.
var KeyStates = []templates.Option{
	{Value: "", Text: "any state"},
	{Value: string(app.Overridden), Text: "overridden"},
	{Value: string(app.Blocked), Text: "blocked now"},
	{Value: string(app.Near), Text: "near a limit"},
	{Value: string(app.Shadow), Text: "shadow or off"},
	{Value: string(app.Banned), Text: "banned"},
	{Value: string(app.Expiring), Text: "expired or expiring"},
	{Value: string(app.Revoked), Text: "revoked"},
	{Value: string(app.Unreadable), Text: "unreadable"},
}

// ReadKeyFilter reads a filter of keys from an address. It reports false for an invalid
// filter.
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

// FilterValues returns the query of an address that ReadKeyFilter reads as f.
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
