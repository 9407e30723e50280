// Package policies serves the pages of the policy: plans, routes, limits and address
// lists for all callers, and import and export of the policy document. Package dashboard
// mounts it. It reads and writes the policy through package app only.
package policies

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/a-h/templ"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/table"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/list"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// pages serves the pages of the policy.
type pages struct {
	*page.Renderer
	*changes.Changes
	keys    *app.Registry
	records *records.Reader
	log     *slog.Logger
}

// Routes returns the pages; r renders them.
func Routes(r *page.Renderer, shared *changes.Changes, keys *app.Registry, calls *records.Reader,
	log *slog.Logger) []auth.Route {
	d := &pages{Renderer: r, Changes: shared, keys: keys, records: calls, log: log}
	return []auth.Route{
		{Pattern: "GET /policies", Role: auth.Viewer, Handle: d.showPolicies},
		{Pattern: "GET /policies.yaml", Role: auth.Viewer, Handle: d.exportPolicies},
		{Pattern: "GET /policies/plans.csv", Role: auth.Viewer, Handle: d.plans().Export,
			Deadline: auth.Slow},
		{Pattern: "GET /policies/routes.csv", Role: auth.Viewer, Handle: d.routes().Export,
			Deadline: auth.Slow},
		{Pattern: "GET /policies/plans/{number}", Role: auth.Viewer, Handle: d.showPlan},
	}
}

// exportPolicies sends the policy as a file.
func (d *pages) exportPolicies(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	text, err := policydoc.Write(set)
	if err != nil {
		d.log.Error("export policy", "cause", err)
		return page.Problem{Status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="tidegate-policies.yaml"`)
	_, _ = w.Write(text) // fails only after the client disconnected
	return nil
}

func (d *pages) showPolicies(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	p := templates.PoliciesPage{
		Page: d.Page(r, "Policies"), Version: page.Number(set.Version), Everyone: allCallersFacts(set),
		Audit: d.Path("/audit?subject=" + app.PolicyRecord), Export: d.Path("/policies.yaml"),
		Files: []templates.Choice{{Text: "Plans as CSV", Address: d.Path("/policies/plans.csv")},
			{Text: "Routes as CSV", Address: d.Path("/policies/routes.csv")}},
	}
	whole := app.PolicyQuery{Paging: list.Paging{Count: maxShown}}
	plans, err := d.keys.Plans(r.Context(), &whole)
	if err != nil {
		return page.Failed("list plans", err)
	}
	routes, err := d.keys.Routes(r.Context(), &whole)
	if err != nil {
		return page.Failed("list routes", err)
	}
	edits := page.CanEdit(r)
	p.Plans = table.Rows("Plans", d.planColumns(edits), plans.Items, nil)
	p.Routes = table.Rows("Routes", d.routeColumns(edits), routes.Items, nil)
	if p.Shadow, p.Since, err = d.triedForAll(r.Context(), set, edits); err != nil {
		return page.Failed("read limits in shadow", err)
	}
	for _, l := range set.Limits {
		if l.Shadow {
			continue
		}
		row := templates.PlanLimit{Limit: l.String()}
		if edits {
			row.Try = page.Address(d.Path("/policies/all"), url.Values{"try": {l.String()}})
		}
		p.Limits = append(p.Limits, row)
	}
	if edits {
		p.NewPlan = d.Path("/policies/plans/new")
		p.NewRoute = d.Path("/policies/routes/new")
		p.EditAll = d.Path("/policies/all")
		p.Import = d.Path("/policies/import")
	}
	return d.Render(w, r, http.StatusOK, templates.Policies(p))
}

// maxShown is how many plans, or routes, a policy may have.
const maxShown = max(policy.MaxPlans, limits.MaxRoutes)

// plans returns the list of plans, for its file.
func (d *pages) plans() *table.Of[app.PolicyQuery, app.ListedPlan] {
	return &table.Of[app.PolicyQuery, app.ListedPlan]{Renderer: d.Renderer, Path: "/policies/plans",
		File: "plans", Read: d.keys.Plans}
}

// routes returns the list of routes, for its file.
func (d *pages) routes() *table.Of[app.PolicyQuery, app.ListedRoute] {
	return &table.Of[app.PolicyQuery, app.ListedRoute]{Renderer: d.Renderer, Path: "/policies/routes",
		File: "routes", Read: d.keys.Routes}
}

func (d *pages) planColumns(edits bool) []table.Column[app.ListedPlan] {
	return []table.Column[app.ListedPlan]{
		{Head: "Plan", Class: "name", Cell: func(p *app.ListedPlan) templ.Component {
			at, name := d.planPath(p.Number), page.Clip(p.Name, page.MaxName)
			link := templates.Link(name, at)
			if !edits {
				return link
			}
			parts := []templ.Component{link, templates.LabelledLink("Edit", "Edit "+name, at+"/edit"),
				templates.LabelledLink("New key", "New key of "+name,
					d.Path("/keys/new?plan="+url.QueryEscape(p.Name)))}
			if p.Keys == 0 {
				parts = append(parts, templates.LabelledLink("Delete", "Delete "+name, at+"/delete"))
			}
			return templates.Parts(parts...)
		}},
		{Head: "Limits", Cell: func(p *app.ListedPlan) templ.Component {
			lines := policydoc.Each(p.Of.Limits)
			if len(p.Of.Opens) > 0 {
				lines = append(lines, page.Clip("Opens "+policydoc.OpensText(p.Of.Opens), 200))
			}
			return templates.Lines(lines)
		}},
		{Head: "If Valkey is unavailable", Class: "extra", Cell: func(p *app.ListedPlan) templ.Component {
			return templates.Number(policydoc.DegradedText(p.Of))
		}},
		{Head: "Keys", Class: "number", Cell: func(p *app.ListedPlan) templ.Component {
			n := page.Number(p.Keys)
			return templates.LabelledLink(n, n+" keys of "+page.Clip(p.Name, page.MaxName),
				d.Path("/keys?plan="+strconv.Itoa(p.Number)))
		}},
	}
}

func (d *pages) routeColumns(edits bool) []table.Column[app.ListedRoute] {
	return []table.Column[app.ListedRoute]{
		{Head: "Route", Class: "name", Cell: func(r *app.ListedRoute) templ.Component {
			name, query := page.Clip(r.Name, page.MaxName), "?route="+url.QueryEscape(r.Name)
			if !edits {
				return templates.Text(name)
			}
			return templates.Parts(templates.Link(name, d.Path("/policies/routes/edit"+query)),
				templates.LabelledLink("Delete", "Delete "+name, d.Path("/policies/routes/delete"+query)))
		}},
		{Head: "Calls to", Cell: func(r *app.ListedRoute) templ.Component {
			var patterns []string
			for _, p := range r.Of.Match {
				patterns = append(patterns, limits.PatternText(p))
			}
			return templates.CodeLines(patterns)
		}},
		{Head: "Cost", Cell: func(r *app.ListedRoute) templ.Component {
			return templates.Number(policydoc.CostText(r.Of))
		}},
		{Head: "Limits", Cell: func(r *app.ListedRoute) templ.Component {
			if len(r.Limits) == 0 {
				return templates.Soft("none")
			}
			return templates.Lines(r.Limits)
		}},
		{Head: "Last hour", Cell: func(r *app.ListedRoute) templ.Component {
			if r.Calls == nil {
				return templates.Number("")
			}
			return templates.Number(page.AtLeast(r.Calls.Calls(), r.AtLeast) + " calls, " +
				page.Number(r.Calls.Denied) + " denied, " + page.Number(r.Calls.Refused) + " refused")
		}},
	}
}

// allCallersFacts describes what else than limits applies to all callers.
func allCallersFacts(s *policy.Set) []templates.Fact {
	addresses := func(list []netip.Prefix) string {
		return page.Clip(policydoc.PrefixText(list), wording.MaxText)
	}
	defaultPlan := func(plan string) string {
		return cmp.Or(page.Clip(plan, page.MaxName), "none: calls are refused")
	}
	return []templates.Fact{
		{Name: "Refused addresses", Value: wording.OrNone(addresses(s.Deny))},
		{Name: "Allowed addresses", Value: cmp.Or(addresses(s.Allow), "all")},
		{Name: "Exempt addresses", Value: wording.OrNone(addresses(s.Exempt))},
		{Name: "Default plan for JWTs", Value: defaultPlan(s.TokenPlan)},
		{Name: "Default plan for addresses", Value: defaultPlan(s.AddressPlan)},
	}
}
