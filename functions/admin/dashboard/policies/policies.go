// Package policies serves the pages of the policy: plans, route rules, limits and address
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
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	routing "tidegate/internal/route"
	"tidegate/internal/usage"
	"tidegate/web/templates"
)

// pages serves the pages of the policy.
type pages struct {
	*page.Renderer
	*changes.Changes
	keys  *app.Registry
	usage *usage.Reader
	log   *slog.Logger
}

// Routes returns the pages; r renders them.
func Routes(
	r *page.Renderer, shared *changes.Changes, keys *app.Registry, calls *usage.Reader, log *slog.Logger,
) []auth.Route {
	d := &pages{Renderer: r, Changes: shared, keys: keys, usage: calls, log: log}
	return []auth.Route{
		{Pattern: "GET /policies", Role: auth.Viewer, Handle: d.showPolicies},
		{Pattern: "GET /policies.yaml", Role: auth.Viewer, Handle: d.exportPolicies},
		{Pattern: "GET /policies/import", Role: auth.Editor, Handle: d.showImport},
		{Pattern: "POST /policies/import", Role: auth.Editor, Handle: d.importPolicies, Resumes: true,
			MaxBody: MaxImport, Deadline: auth.Slow},
		{Pattern: "POST /policies/sync", Role: auth.Editor, Handle: d.syncPolicies, Deadline: auth.Slow},
		{Pattern: "GET /policies/rules/edit", Role: auth.Editor, Handle: d.showRule},
		{Pattern: "GET /policies/plans/new", Role: auth.Editor, Handle: d.show(d.planEdit)},
		{Pattern: "POST /policies/plans/new", Role: auth.Editor, Handle: d.save(d.planEdit),
			Resumes: true, Deadline: auth.Slow},
		{Pattern: "GET /policies/plans/{number}", Role: auth.Viewer, Handle: d.showPlan},
		{Pattern: "GET /policies/plans/{number}/edit", Role: auth.Editor, Handle: d.show(d.planEdit)},
		{Pattern: "POST /policies/plans/{number}/edit", Role: auth.Editor, Handle: d.save(d.planEdit),
			Resumes: true, Deadline: auth.Slow},
		{Pattern: "GET /policies/plans/{number}/delete", Role: auth.Editor, Handle: d.show(planDeletion)},
		{Pattern: "POST /policies/plans/{number}/delete", Role: auth.Editor, Handle: d.save(planDeletion),
			Resumes: true, Deadline: auth.Slow},
		{Pattern: "GET /policies/rules/new", Role: auth.Editor, Handle: d.show(ruleEdit)},
		{Pattern: "POST /policies/rules", Role: auth.Editor, Handle: d.save(ruleEdit),
			Resumes: true, Deadline: auth.Slow},
		{Pattern: "GET /policies/rules/delete", Role: auth.Editor, Handle: d.show(ruleDeletion)},
		{Pattern: "POST /policies/rules/delete", Role: auth.Editor, Handle: d.save(ruleDeletion),
			Resumes: true, Deadline: auth.Slow},
		{Pattern: "GET /policies/shared", Role: auth.Editor, Handle: d.show(allCallersEdit)},
		{Pattern: "POST /policies/shared", Role: auth.Editor, Handle: d.save(allCallersEdit), Resumes: true,
			MaxBody: maxAllCallers, Deadline: auth.Slow},
	}
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
		Page: d.Page(r, "Policies"), Version: page.Number(set.Version), Shared: allCallersFacts(set),
		Audit: d.Path("/audit?subject=" + policyset.SetID), Export: d.Path("/policies.yaml"),
	}
	for _, plan := range set.Plans {
		p.Plans = append(p.Plans, d.planRow(r, plan, counts[plan.Number]))
	}
	if p.Rules, err = d.ruleRows(r, set); err != nil {
		return page.Failed("read calls", err)
	}
	synced, err := d.keys.Synced(r.Context(), set)
	if err != nil {
		return page.Failed("read policy", err)
	}
	p.Unfinished = !synced
	if page.CanEdit(r) {
		p.NewPlan = d.Path("/policies/plans/new")
		p.NewRule = d.Path("/policies/rules/new")
		p.EditShared = d.Path("/policies/shared")
		p.Import = d.Path("/policies/import")
		if p.Unfinished {
			p.Sync = d.Path("/policies/sync")
		}
	}
	return d.Render(w, r, http.StatusOK, templates.Policies(p))
}

// syncPolicies completes a save that did not reach every shard.
func (d *pages) syncPolicies(w http.ResponseWriter, r *http.Request) error {
	if err := d.keys.SyncPolicy(r.Context()); err != nil {
		return page.Failed("sync policy", err)
	}
	d.Flash(r, "Save finished on every shard.", "")
	return page.Redirect(w, r, d.Path("/policies"))
}

func (d *pages) planRow(r *http.Request, p policy.Plan, keys int64) templates.PlanRow {
	at := d.planPath(p.Number)
	row := templates.PlanRow{
		Name: page.Clip(p.Name, page.MaxName), Address: at, Limits: policydoc.Each(p.Limits),
		Mode:     policydoc.ModeText(p.Mode),
		Degraded: policydoc.DegradedText(p),
		Keys:     page.Number(keys), KeysLink: d.Path("/keys?plan=" + strconv.Itoa(p.Number)),
	}
	for _, l := range p.PerGroup {
		row.Limits = append(row.Limits, "Each group: "+policydoc.LimitText(l))
	}
	if len(p.Allow) > 0 {
		row.Limits = append(row.Limits, page.Clip("Opens "+policydoc.AllowText(p.Allow), 200))
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

// ruleRows lists the rules, most specific first.
func (d *pages) ruleRows(r *http.Request, set *policy.Set) ([]templates.RuleRow, error) {
	patterns := make([]routing.Pattern, len(set.Routes))
	for i, rule := range set.Routes {
		patterns[i] = rule.Pattern
	}
	var rows []templates.RuleRow
	now := time.Now()
	for _, i := range routing.Order(patterns) {
		rule := set.Routes[i]
		row := templates.RuleRow{
			Name:    page.Clip(rule.Name, page.MaxName),
			Pattern: rule.Pattern.String(),
			Cost:    wording.Cost(rule.Cost) + policydoc.SettleText(rule),
			Mode:    policydoc.ModeText(rule.Mode),
			Limits:  ruleLimits(rule),
		}
		if len(rows) < maxRuleCounts {
			points, err := d.usage.Rule(r.Context(), policy.RouteID(rule.Name), now.Add(-time.Hour),
				now, time.Minute)
			if err != nil {
				return nil, err
			}
			sum := usage.Sum(points)
			row.Calls = page.Number(sum.Calls()) + " calls, " + page.Number(sum.Denied) + " blocked"
		}
		if page.CanEdit(r) {
			row.Edit = d.Path("/policies/rules/edit?rule=" + url.QueryEscape(rule.Name))
			row.Delete = d.Path("/policies/rules/delete?rule=" + url.QueryEscape(rule.Name))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// maxRuleCounts is the number of rules whose calls the page shows.
const maxRuleCounts = 50

func ruleLimits(r policy.Route) []string {
	var texts []string
	add := func(scope string, limits []limiter.Limit) {
		for _, text := range policydoc.Each(limits) {
			texts = append(texts, scope+": "+text)
		}
	}
	add("each caller", r.PerKey)
	add("each address", r.PerIP)
	add("all callers together", r.Shared)
	return texts
}

// allCallersFacts describes what applies to all callers.
func allCallersFacts(s *policy.Set) []templates.Fact {
	addresses := func(list []netip.Prefix) string {
		return page.Clip(policydoc.PrefixText(list), wording.MaxText)
	}
	defaultPlan := func(plan string) string {
		return cmp.Or(page.Clip(plan, page.MaxName), "none: calls are refused")
	}
	return []templates.Fact{
		{Name: "Each client address", Value: wording.OrNone(policydoc.ScopeText(s.PerIP))},
		{Name: "All callers together", Value: wording.OrNone(policydoc.ScopeText(s.Global))},
		{Name: "Refused addresses", Value: wording.OrNone(addresses(s.Deny))},
		{Name: "Allowed addresses", Value: cmp.Or(addresses(s.Allow), "all")},
		{Name: "Exempt addresses", Value: wording.OrNone(addresses(s.Exempt))},
		{Name: "Default plan for JWTs", Value: defaultPlan(s.TokenPlan)},
		{Name: "Default plan for addresses", Value: defaultPlan(s.AddressPlan)},
	}
}
