package changes

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// MaxSearch is how many characters a search has at most.
const MaxSearch = 100

// anywhere makes the search match any part of a name, not its start.
const anywhere = "name"

// KeyStates are what the list of keys can be narrowed to; each is the state of a badge.
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

func isKeyState(state app.State) bool {
	return state == "" || slices.Contains(app.States(), state)
}

// ReadKeyFilter reads a filter of keys from an address. It reports false for one that no
// page makes.
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
	return f, len([]rune(f.Prefix)) <= MaxSearch && len([]rune(f.Tag)) <= policy.MaxTagLen &&
		len(f.Group) <= policy.MaxGroupLen &&
		isKeyState(f.State)
}

// FilterValues are a filter's fields of an address.
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
