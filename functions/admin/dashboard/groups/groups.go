// Package groups serves the list of groups of keys, the page of a group, its override and
// the reset of its counts, and links to groups for searches. Package dashboard mounts it.
package groups

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/denials"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

const (
	keysShown  = 50 // keys on the page of a group
	linksShown = 5  // groups that a search finds
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
		{Pattern: "GET /groups", Role: auth.Viewer, Handle: d.list().Show},
		{Pattern: "GET /groups.csv", Role: auth.Viewer, Handle: d.list().Export, Deadline: auth.Slow},
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
	found, err := d.keys.Groups(ctx, &app.GroupQuery{Prefix: prefix, Paging: list.Paging{Count: linksShown}})
	var links []templates.Choice
	for _, g := range found.Items {
		links = append(links, templates.Choice{Text: g.Name + " (" + app.KeyCount(g.Keys) + ")",
			Address: d.Path(Path(g.Name))})
	}
	return links, err
}

// list returns the list of groups.
func (d *Pages) list() *table.Of[app.GroupQuery, app.ListedGroup] {
	return &table.Of[app.GroupQuery, app.ListedGroup]{
		Renderer: d.Renderer, Path: "/groups", Title: "Groups", File: "groups",
		Caption: "Groups with their number of keys", Read: d.keys.Groups,
		Columns: func(*app.GroupQuery) []table.Column[app.ListedGroup] {
			return []table.Column[app.ListedGroup]{
				{Head: "Group", Cell: func(g *app.ListedGroup) templ.Component {
					return templates.Link(g.Name, d.Path(Path(g.Name)))
				}},
				{Head: "Keys", Class: "num", Cell: func(g *app.ListedGroup) templ.Component {
					return templates.Text(page.Number(g.Keys))
				}},
				{Head: "Override", Cell: func(g *app.ListedGroup) templ.Component {
					if g.Override == nil {
						return templates.Soft("none")
					}
					return templates.Text(wording.Override(g.Override))
				}},
			}
		},
		Filters: func(context.Context, *app.GroupQuery) ([]templates.Filter, error) {
			return []templates.Filter{{Name: "prefix", Label: "Name", Hint: "Start of the name"}}, nil
		},
		Empty: func(*app.GroupQuery, *list.Page[app.ListedGroup]) templates.Empty {
			return templates.Empty{
				Heading: "No groups",
				Advice: "A group exists as soon as a key is in it: " +
					"enter its name when you create or edit a key.",
			}
		},
	}
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
	p.Keys = table.Rows("Keys of the group", []table.Column[app.Subject]{
		{Head: "Key", Cell: func(s *app.Subject) templ.Component {
			return templates.Link(page.Clip(s.Name, page.MaxName), d.Path("/keys/"+s.ID))
		}},
		{Head: "Plan", Cell: func(s *app.Subject) templ.Component {
			return templates.Text(page.Clip(s.Plan, page.MaxName))
		}},
		{
			Head: "Status",
			Cell: func(s *app.Subject) templ.Component { return templates.Badges(wording.Badges(*s)) },
		},
	}, found.Subjects, nil)
	for _, l := range g.Limits {
		n, _ := strconv.Atoi(l.PlanID)
		p.Limits = append(p.Limits, wording.Applied(l, set.PlanName(n), g.Now))
	}
	denied, err := d.denials.OfGroup(r.Context(), g.Name)
	if err != nil {
		return page.Failed("read denials", err)
	}
	p.Denials, p.AllDenials = denied.Table, denied.All
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
