package changes

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// MaxSearch is the maximum length of a search in characters.
const MaxSearch = 100

// KeyStates are the states that filter a list of keys, with the texts of badges.
var KeyStates = []templates.Option{
	{Value: "", Text: "any state"},
	{Value: string(app.Overridden), Text: "overridden"},
	{Value: string(app.Blocked), Text: "blocked now"},
	{Value: string(app.Near), Text: "near a limit"},
	{Value: string(app.Shadow), Text: "shadow or no limits"},
	{Value: string(app.Banned), Text: "banned"},
	{Value: string(app.Expiring), Text: "expired or expiring"},
	{Value: string(app.Revoked), Text: "revoked"},
	{Value: string(app.Unreadable), Text: "unreadable"},
}

// StateText returns the text of a state's option.
func StateText(state app.State) string {
	return cmp.Or(form.OptionText(KeyStates, string(state)), KeyStates[0].Text)
}

// ReadKeyFilter reads a filter of keys from an address. A plan is its name or its number.
// problem says what is invalid; it is empty for a valid filter.
func ReadKeyFilter(set *policy.Set, q url.Values) (f app.KeyFilter, problem string) {
	f = app.KeyFilter{Prefix: strings.TrimSpace(q.Get("q")), Tag: strings.TrimSpace(q.Get("tag")),
		Group: strings.TrimSpace(q.Get("group")), State: app.State(q.Get("state"))}
	f.Anywhere = f.Prefix != ""
	if plan := q.Get("plan"); plan != "" {
		p, known := set.Plan(plan)
		if n, err := strconv.Atoi(plan); !known && err == nil {
			p, known = set.PlanByNumber(n)
		}
		if !known {
			return f, "No plan is named “" + page.Clip(plan, page.MaxName) + "”."
		}
		f.Plan = p.Number
	}
	switch {
	case utf8.RuneCountInString(f.Prefix) > MaxSearch:
		problem = "A name has at most 100 characters."
	case utf8.RuneCountInString(f.Tag) > policy.MaxTagLen:
		problem = "A tag has at most 50 characters."
	case len(f.Group) > policy.MaxGroupLen:
		problem = "A group's name has at most 64 characters."
	case f.State != "" && !slices.Contains(app.States(), f.State):
		problem = "Choose a state from the list."
	}
	return f, problem
}

// FilterValues returns the query of an address that ReadKeyFilter reads as f.
func FilterValues(f app.KeyFilter) url.Values {
	v := url.Values{"q": {f.Prefix}, "tag": {f.Tag}, "group": {f.Group}, "state": {string(f.State)}}
	if f.Plan > 0 {
		v.Set("plan", strconv.Itoa(f.Plan))
	}
	return v
}
