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
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
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
func Routes(
	r *page.Renderer, shared *changes.Changes, keys *app.Registry, calls *records.Reader, log *slog.Logger,
) []auth.Route {
	d := &pages{Renderer: r, Changes: shared, keys: keys, records: calls, log: log}
	return []auth.Route{
		{Pattern: "GET /policies", Role: auth.Viewer, Handle: d.showPolicies},
		{Pattern: "GET /policies.yaml", Role: auth.Viewer, Handle: d.exportPolicies},
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
	counts, err := d.keys.PlanCounts(r.Context(), set)
	if err != nil {
		return page.Failed("count keys", err)
	}
	p := templates.PoliciesPage{
		Page: d.Page(r, "Policies"), Version: page.Number(set.Version), Everyone: allCallersFacts(set),
		Audit: d.Path("/audit?subject=" + app.PolicyRecord), Export: d.Path("/policies.yaml"),
	}
	for _, plan := range set.Plans {
		p.Plans = append(p.Plans, d.planRow(r, plan, counts[plan.Number]))
	}
	if p.Routes, err = d.routeRows(r, set); err != nil {
		return page.Failed("read calls", err)
	}
	if p.Shadow, p.Since, err = d.triedForAll(r.Context(), set, page.CanEdit(r)); err != nil {
		return page.Failed("read limits in shadow", err)
	}
	for _, l := range set.Limits {
		if l.Shadow {
			continue
		}
		row := templates.PlanLimit{Limit: l.String()}
		if page.CanEdit(r) {
			row.Try = page.Address(d.Path("/policies/all"), url.Values{"try": {l.String()}})
		}
		p.Limits = append(p.Limits, row)
	}
	if page.CanEdit(r) {
		p.NewPlan = d.Path("/policies/plans/new")
		p.NewRoute = d.Path("/policies/routes/new")
		p.EditAll = d.Path("/policies/all")
		p.Import = d.Path("/policies/import")
	}
	return d.Render(w, r, http.StatusOK, templates.Policies(p))
}

func (d *pages) planRow(r *http.Request, p policy.Plan, keys int64) templates.PlanRow {
	at := d.planPath(p.Number)
	row := templates.PlanRow{
		Name: page.Clip(p.Name, page.MaxName), Address: at, Limits: policydoc.Each(p.Limits),
		Degraded: policydoc.DegradedText(p),
		Keys:     page.Number(keys), KeysLink: d.Path("/keys?plan=" + strconv.Itoa(p.Number)),
	}
	if len(p.Opens) > 0 {
		row.Limits = append(row.Limits, page.Clip("Opens "+policydoc.OpensText(p.Opens), 200))
	}
	if !page.CanEdit(r) {
		return row
	}
	row.Edit = at + "/edit"
	row.Create = d.Path("/keys/new?plan=" + url.QueryEscape(p.Name))
	if keys == 0 {
		row.Delete = at + "/delete"
	}
	return row
}

// routeRows lists the routes in the order in which they were saved.
func (d *pages) routeRows(r *http.Request, set *policy.Set) ([]templates.RouteRow, error) {
	var names []string
	for _, route := range set.Routes[:min(len(set.Routes), maxRouteCounts)] {
		names = append(names, route.Name)
	}
	counted, err := d.records.Routes(r.Context(), names, records.Last(time.Hour, 0, time.Now()))
	if err != nil {
		return nil, err
	}
	var rows []templates.RouteRow
	for _, route := range set.Routes {
		row := templates.RouteRow{Name: page.Clip(route.Name, page.MaxName), Cost: policydoc.CostText(route),
			Limits: limitsOn(set, route.Name)}
		for _, p := range route.Match {
			row.Match = append(row.Match, limits.PatternText(p))
		}
		if len(rows) < maxRouteCounts {
			of := &counted[len(rows)]
			sum := of.Sum()
			row.Calls = page.AtLeast(sum.Calls(), of.Incomplete()) + " calls, " + page.Number(sum.Denied) +
				" denied, " + page.Number(sum.Refused) + " refused"
		}
		if page.CanEdit(r) {
			row.Edit = d.Path("/policies/routes/edit?route=" + url.QueryEscape(route.Name))
			row.Delete = d.Path("/policies/routes/delete?route=" + url.QueryEscape(route.Name))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// maxRouteCounts is the number of routes whose calls the page shows.
const maxRouteCounts = 50

// limitsOn lists the limits that name a route, with the plan where they stand.
func limitsOn(set *policy.Set, name string) []string {
	var texts []string
	add := func(of string, list []limits.Limit) {
		for _, l := range list {
			if l.On == name {
				texts = append(texts, of+l.String())
			}
		}
	}
	for _, p := range set.Plans {
		add(page.Clip(p.Name, page.MaxName)+": ", p.Limits)
	}
	add("", set.Limits)
	return texts
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
