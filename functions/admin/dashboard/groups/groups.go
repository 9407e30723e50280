// Package groups serves the list of groups of keys, the page of a group, its override and
// the reset of its counts, and links to groups for searches. Package dashboard mounts it.
package groups

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const (
	groupsShown = 200 // groups of the list
	keysShown   = 50  // keys on the page of a group
	linksShown  = 5   // groups that a search finds
)

// Pages serves the pages of groups.
type Pages struct {
	*page.Renderer
	keys    *app.Registry
	denials *denials.Pages
}

// New returns the pages; r renders them.
func New(r *page.Renderer, keys *app.Registry, d *denials.Pages) *Pages {
	return &Pages{Renderer: r, keys: keys, denials: d}
}

// Routes returns the pages.
func (d *Pages) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "GET /groups", Role: auth.Viewer, Handle: d.showAll},
		{Pattern: "GET /groups/{name}", Role: auth.Viewer, Handle: d.show},
	}
}

// Path returns the path of a group's page, without the base path.
func Path(name string) string { return "/groups/" + url.PathEscape(name) }

// Links returns links to the first groups whose names begin with prefix; none for an
// empty prefix.
func (d *Pages) Links(ctx context.Context, prefix string) ([]templates.Choice, error) {
	if prefix == "" {
		return nil, nil
	}
	found, err := d.keys.Groups(ctx, prefix, linksShown)
	var links []templates.Choice
	for _, g := range found {
		links = append(links, templates.Choice{Text: g.Name + " (" + app.KeyCount(g.Keys) + ")",
			Address: d.Path(Path(g.Name))})
	}
	return links, err
}

// showAll shows the groups whose names begin with the text in the address.
func (d *Pages) showAll(w http.ResponseWriter, r *http.Request) error {
	prefix := page.Clip(r.URL.Query().Get("q"), policy.MaxGroupLen)
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	found, err := d.keys.Groups(r.Context(), prefix, groupsShown+1)
	if err != nil {
		return page.Failed("list groups", err)
	}
	p := templates.GroupsPage{Page: d.Page(r, "Groups"), Submit: d.Path("/groups"), Text: prefix}
	if len(found) > groupsShown {
		found = found[:groupsShown]
		p.Note = "The first " + page.Number(groupsShown) + " groups. Search by the start of a name for more."
	}
	for _, g := range found {
		row := templates.GroupRow{Name: g.Name, Address: d.Path(Path(g.Name)), Keys: page.Number(g.Keys)}
		if o, has := set.GroupOverrides[g.Name]; has {
			row.Override = wording.Override(&o)
		}
		p.Rows = append(p.Rows, row)
	}
	return d.Render(w, r, http.StatusOK, templates.Groups(p))
}

// group returns the policy set and the group in the path.
func (d *Pages) group(r *http.Request) (*policy.Set, app.Group, error) {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return nil, app.Group{}, page.Failed("read policy", err)
	}
	g, err := d.keys.Group(r.Context(), set, r.PathValue("name"))
	if err != nil {
		return nil, app.Group{}, problemOf(err)
	}
	return set, g, nil
}

func (d *Pages) show(w http.ResponseWriter, r *http.Request) error {
	set, g, err := d.group(r)
	if err != nil {
		return err
	}
	found, err := app.FindKeys(r.Context(), d.keys, set, app.KeyFilter{Group: g.Name}, "", keysShown)
	if err != nil {
		return page.Failed("list keys", err)
	}
	p := templates.GroupPage{
		Page: d.Page(r, "Group "+g.Name), Trail: d.trail(), Name: g.Name, AsOf: page.Instant(g.Now),
		All: templates.Choice{Text: "All keys of this group (" + page.Number(g.Keys) + ")",
			Address: page.Address(d.Path("/keys"), url.Values{"group": {g.Name}})},
		Audit: page.Address(d.Path("/audit"), url.Values{"subject": {policy.GroupID(g.Name)}}),
	}
	for _, s := range found.Subjects {
		p.Keys = append(p.Keys, d.keyRow(s))
	}
	for _, l := range g.Limits {
		n, _ := strconv.Atoi(l.PlanID)
		p.Limits = append(p.Limits, wording.Applied(l, set.PlanName(n), g.Now))
	}
	if p.Denials, p.AllDenials, err = d.denials.OfGroup(r.Context(), g.Name); err != nil {
		return page.Failed("read denials", err)
	}
	link := func(text, to string) templates.Choice {
		return templates.Choice{Text: text, Address: d.Path(Path(g.Name) + to)}
	}
	if page.CanEdit(r) {
		p.Actions = []templates.Choice{link("Override limits", "/limits"),
			link("Billing day", "/billing"), link("Reset counts", "/reset")}
	}
	if o := g.Override; o != nil {
		p.Override = wording.Override(o) + ". Reason: " + page.Clip(o.Reason, policy.MaxReasonLen)
		if page.CanEdit(r) {
			p.Actions = append(p.Actions, link("End override", "/end"))
		}
	}
	return d.Render(w, r, http.StatusOK, templates.Group(p))
}

func (d *Pages) keyRow(s app.Subject) templates.GroupKey {
	return templates.GroupKey{
		Name: page.Clip(s.Name, page.MaxName), Address: d.Path("/keys/" + s.ID),
		Plan: page.Clip(s.Plan, page.MaxName), Badges: wording.Badges(s),
	}
}

// trail leads back to the list of groups.
func (d *Pages) trail() []templates.Choice {
	return []templates.Choice{{Text: "Groups", Address: d.Path("/groups")}}
}

// problemOf returns the answer to an error of reading or changing a group.
func problemOf(err error) error {
	if errors.Is(err, policy.ErrNotFound) {
		return page.Problem{Status: http.StatusNotFound, Heading: "No such group",
			Advice: "No key is in this group."}
	}
	return page.Failed("read group", err)
}
