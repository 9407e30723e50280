package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// maxFound bounds the keys, groups, plans and routes among the results of a search.
const maxFound = 5

// requestPattern matches the ids that API Gateway gives to the calls of REST and HTTP
// APIs.
var requestPattern = regexp.MustCompile(
	`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9A-Za-z_-]{15}=)$`)

// editorActions are the pages with which editors create things.
var editorActions = []templates.Choice{
	{Text: "Create a key", Address: "/keys/new"},
	{Text: "Create a plan", Address: "/policies/plans/new"},
	{Text: "Create a route", Address: "/policies/routes/new"},
	{Text: "Limit all callers", Address: "/policies/all"},
	{Text: "Override or ban a caller", Address: "/callers/new"},
	{Text: "Import policies", Address: "/policies/import"},
	{Text: "Create a machine token", Address: "/settings/tokens/new"},
}

// showFound shows the results of a search, for browsers without a script.
func (d *dashboard) showFound(w http.ResponseWriter, r *http.Request) error {
	typed := strings.TrimSpace(r.URL.Query().Get("q"))
	if app.LooksLikeSecret(typed) {
		return d.redirectSecret(w, r, typed)
	}
	results, err := d.find(r, typed)
	if err != nil {
		return page.Failed("search", err)
	}
	return d.Render(w, r, http.StatusOK, templates.FoundAll(templates.FoundPage{
		Page: d.Page(r, "Search"), Text: page.Clip(typed, page.MaxName), Results: results,
	}))
}

// find returns what a text may mean: the key with this id or secret, else keys, groups,
// plans and routes by name, a caller or a request by its id, pages and actions that
// the user may do by the start of a word. Those with the whole text as their name come
// first.
func (d *dashboard) find(r *http.Request, typed string) ([]templates.Found, error) {
	one, err := d.Keys.ResolveKey(r.Context(), typed)
	if err != nil || one.Secret && one.Key.ID == "" {
		return nil, err
	}
	if one.Key.ID != "" {
		found := d.foundKey(app.Subject{Key: one.Key})
		if note := secretNote(one); note != "" {
			found.Kind = note
		}
		if one.Dead() {
			found.Badges = []templates.Badge{{Text: "dead secret", Level: "full"}}
		}
		return []templates.Found{found}, nil
	}
	all, err := d.foundByID(r, typed)
	if err != nil {
		return nil, err
	}
	if typed != "" {
		named, err := d.foundByName(r, typed)
		if err != nil {
			return nil, err
		}
		all = append(all, named...)
	}
	add := func(kind string, c templates.Choice) {
		if strings.Contains(" "+strings.ToLower(c.Text), " "+strings.ToLower(typed)) {
			all = append(all, templates.Found{Choice: c, Kind: kind})
		}
	}
	for _, section := range d.Nav(r) {
		for _, place := range section.Pages {
			add("page", place)
		}
	}
	add("page", templates.Choice{Text: "Overridden keys", Address: d.Path("/keys?state=overridden")})
	for _, action := range editorActions {
		if page.CanEdit(r) {
			add("action", templates.Choice{Text: action.Text, Address: d.Path(action.Address)})
		}
	}
	whole := func(f templates.Found) bool { return strings.EqualFold(f.Text, typed) }
	slices.SortStableFunc(all, func(a, b templates.Found) int {
		switch {
		case whole(a) == whole(b):
			return 0
		case whole(a):
			return -1
		}
		return 1
	})
	return all, nil
}

// foundByName returns keys, groups, plans and routes whose names have the text.
func (d *dashboard) foundByName(r *http.Request, typed string) ([]templates.Found, error) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		return nil, err
	}
	filter := app.KeyFilter{Prefix: typed, Anywhere: true}
	keys, err := app.FindKeys(r.Context(), d.Keys, set, filter, "", maxFound)
	if err != nil {
		return nil, err
	}
	var all []templates.Found
	for _, s := range keys.Subjects {
		all = append(all, d.foundKey(s))
	}
	groups, err := d.groups.Links(r.Context(), typed)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		all = append(all, templates.Found{Choice: g, Kind: "group"})
	}
	all = append(all, d.foundPolicies(set, typed, page.CanEdit(r))...)
	if keys.Next != "" {
		all = append(all, templates.Found{Kind: "search", Choice: templates.Choice{
			Text:    "All keys with “" + page.Clip(typed, page.MaxName) + "”",
			Address: page.Address(d.Path("/keys"), url.Values{"q": {typed}}),
		}})
	}
	return all, nil
}

// foundPolicies returns plans by name, and routes by name and pattern. Routes lead to
// their form, or to the list of routes for a viewer.
func (d *dashboard) foundPolicies(set *policy.Set, typed string, edits bool) []templates.Found {
	matching := func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(typed))
	}
	var plans, routes []templates.Found
	for _, p := range set.Plans {
		if matching(p.Name) {
			plans = append(plans, templates.Found{Kind: "plan", Choice: templates.Choice{
				Text:    page.Clip(p.Name, page.MaxName),
				Address: d.Path("/policies/plans/" + strconv.Itoa(p.Number)),
			}})
		}
	}
	for _, route := range set.Routes {
		if match := policydoc.MatchText(route); matching(route.Name) || matching(match) {
			at := d.Path("/policies#routes")
			if edits {
				at = page.Address(d.Path("/policies/routes/edit"), url.Values{"route": {route.Name}})
			}
			routes = append(routes, templates.Found{Kind: "route " + page.Clip(match, page.MaxName),
				Choice: templates.Choice{Text: page.Clip(route.Name, page.MaxName), Address: at}})
		}
	}
	return append(plans[:min(len(plans), maxFound)], routes[:min(len(routes), maxFound)]...)
}

func (d *dashboard) foundKey(s app.Subject) templates.Found {
	return templates.Found{Kind: "key", Badges: wording.Badges(s), Choice: templates.Choice{
		Text: page.Clip(s.Name, page.MaxName), Address: d.keyPath(s.Key)}}
}

func isReference(text string) bool {
	_, ok := records.ParseReference(text)
	return ok
}

// foundByID returns the caller whose id or address the text is, or what is known of the call
// that it refers to.
func (d *dashboard) foundByID(r *http.Request, typed string) ([]templates.Found, error) {
	caller, name := typed, typed
	if _, network, ok := app.ParseAddress(typed); ok {
		caller, name = d.Keys.AddressCaller(network), network.String()
	}
	switch {
	case app.IsCaller(caller):
		return []templates.Found{{Kind: "caller", Choice: templates.Choice{
			Text: "Caller " + name, Address: d.Path("/callers/" + caller)}}}, nil
	case isReference(typed), requestPattern.MatchString(typed):
		found, err := d.Keys.Denials(r.Context(), &app.DenialQuery{Request: typed})
		if err != nil {
			return nil, err
		}
		text := "No denial is known of request " + typed
		if len(found.Items) > 0 {
			text = denialWords(&found.Items[0])
		}
		return []templates.Found{{Kind: "request", Choice: templates.Choice{Text: text,
			Address: page.Address(d.Path("/denials"), url.Values{"request": {typed}})}}}, nil
	}
	return nil, nil
}

// denialWords says what became of a call: "acme: denied by 10 per minute, 2026-11-28 …".
func denialWords(l *app.Denial) string {
	text := page.Clip(cmp.Or(l.Name, l.Caller, "Unknown caller"), page.MaxName) + ": "
	if l.Limit == "" {
		text += strings.ToLower(app.CauseWords[l.Cause])
	} else {
		text += "denied by " + page.Clip(l.Limit, page.MaxName)
	}
	return text + ", " + page.Instant(l.Time).Text
}
