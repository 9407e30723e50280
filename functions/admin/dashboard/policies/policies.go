package policies

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

func (d *pages) showPolicies(w http.ResponseWriter, r *http.Request) {
	set, err := d.Keys.Set(r.Context())
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	counts, err := d.Keys.PlanCounts(r.Context(), set)
	if err != nil {
		d.FailStore(w, r, "count keys", err)
		return
	}
	results, err := d.candidateResults(r.Context(), set)
	if err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	p := templates.PoliciesPage{
		Page: d.Page(r, "Policies"), Version: page.Number(set.Version), Shared: sharedFacts(set),
		Denied: d.countDeniedLimits(r, set),
		Audit:  d.Path("/audit?subject=" + policyset.SetID), Export: d.Path("/policies.yaml"),
	}
	for _, plan := range set.Plans {
		p.Plans = append(p.Plans, d.planRow(r, plan, counts[plan.Number], results[plan.Number]))
	}
	if p.Rules, err = d.ruleRows(r, set); err != nil {
		d.FailStore(w, r, "read calls", err)
		return
	}
	if page.CanEdit(r) {
		p.NewPlan, p.NewRule, p.EditShared = d.Path("/policies/plans/new"), d.Path("/policies/rules/new"),
			d.Path("/policies/shared")
		p.Import = d.Path("/policies/import")
	}
	synced, err := d.Keys.Synced(r.Context(), set)
	if err != nil {
		d.FailStore(w, r, "read policy", err)
		return
	}
	if p.Unfinished = !synced; p.Unfinished && page.CanEdit(r) {
		p.Sync = d.Path("/policies/sync")
	}
	d.Render(w, r, http.StatusOK, templates.Policies(p))
}

// countDeniedLimits lists the limits that callers share and that count denied calls, each
// with where to edit it.
func (d *pages) countDeniedLimits(r *http.Request, set *policy.Set) []templates.Choice {
	var all []templates.Choice
	for _, l := range set.SharedCountDenied() {
		of, at := "Each client address", "/policies/shared"
		if l.Scope == policy.ScopeGlobal {
			of = "All callers together"
		}
		if l.Route.Name != "" {
			of = "Route rule " + page.Clip(l.Route.Name, page.MaxName) + ", " +
				strings.ToLower(wording.Scope(l.Scope))
			at = "/policies/rules/edit?rule=" + url.QueryEscape(l.Route.Name)
		}
		choice := templates.Choice{Text: of + ": " + policydoc.LimitText(l.Limit)}
		if page.CanEdit(r) {
			choice.Address = d.Path(at)
		}
		all = append(all, choice)
	}
	return all
}

func (d *pages) planRow(r *http.Request, p policy.Plan, keys int64, t candidateResult) templates.PlanRow {
	at := d.Path("/policies/plans/" + strconv.Itoa(p.Number))
	row := templates.PlanRow{
		Name: page.Clip(p.Name, page.MaxName), Limits: policydoc.Each(p.Limits),
		Mode:     policydoc.ModeText(p.Mode),
		Degraded: policydoc.DegradedText(p),
		Keys:     page.Number(keys), KeysLink: d.Path("/keys?plan=" + strconv.Itoa(p.Number)),
		Candidate: policydoc.Each(p.Candidate),
	}
	for _, l := range p.PerGroup {
		row.Limits = append(row.Limits, "Each group: "+policydoc.LimitText(l))
	}
	if len(p.Allow) > 0 {
		row.Limits = append(row.Limits, page.Clip("Opens "+policydoc.AllowText(p.Allow), 200))
	}
	if len(p.Candidate) > 0 {
		row.CandidateResult = "would have denied " + page.Number(t.wouldDeny) + " of " +
			page.Number(t.calls) + " calls of its busiest keys in the last hour"
	}
	if !page.CanEdit(r) {
		return row
	}
	row.Edit, row.Create = at, d.Path("/keys/new?plan="+url.QueryEscape(p.Name))
	if keys == 0 {
		row.Delete = at + "/delete"
	}
	if len(p.Candidate) > 0 {
		row.Promote, row.Drop = at+"/promote", at+"/drop"
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
			Name: page.Clip(
				rule.Name,
				page.MaxName,
			),
			Pattern: rule.Pattern.String(),
			Cost:    wording.Cost(rule.Cost) + policydoc.SettleText(rule),
			Mode:    policydoc.ModeText(rule.Mode),
			Limits:  ruleLimits(rule),
		}
		if len(rows) < maxRuleCounts {
			points, err := d.Usage.Rule(r.Context(), policy.RouteID(rule.Name), now.Add(-time.Hour),
				now, time.Minute)
			if err != nil {
				return nil, err
			}
			sum := usage.Sum(points)
			row.Calls = page.Number(sum.Calls()) + ", " + page.Number(sum.Denied) + " blocked"
		}
		if page.CanEdit(r) {
			row.Edit = d.Path("/policies/rules/edit?rule=" + url.QueryEscape(rule.Name))
			row.Delete = d.Path("/policies/rules/delete?rule=" + url.QueryEscape(rule.Name))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// maxRuleCounts bounds the rules whose calls are looked up.
const maxRuleCounts = 50

func ruleLimits(r policy.Route) []string {
	var words []string
	for _, l := range []struct {
		of     string
		limits []limiter.Limit
		lease  policy.Duration
	}{{"each caller", r.PerKey, 0}, {"each address", r.PerIP, 0}, {"all together", r.Shared, r.SharedLease}} {
		for _, w := range policydoc.Each(l.limits) {
			words = append(words, l.of+": "+w+policydoc.LeaseText(l.lease))
		}
	}
	return words
}

func sharedFacts(s *policy.Set) []templates.Fact {
	return []templates.Fact{
		{Name: "Each client address", Value: wording.OrNone(policydoc.ScopeText(s.PerIP))},
		{Name: "All callers together", Value: wording.OrNone(policydoc.ScopeText(s.Global))},
		{
			Name: "Refused addresses", Value: wording.OrNone(page.Clip(policydoc.PrefixText(s.Deny),
				wording.MaxText)),
		},
		{Name: "Allowed addresses", Value: orAll(page.Clip(policydoc.PrefixText(s.Allow), wording.MaxText))},
		{
			Name:  "Exempt addresses",
			Value: wording.OrNone(page.Clip(policydoc.PrefixText(s.Exempt), wording.MaxText)),
		},
		{Name: "Default plan for JWTs", Value: orRefused(s.TokenPlan)},
		{Name: "Default plan for addresses", Value: orRefused(s.AddressPlan)},
		{Name: "Automatic bans", Value: wording.OrNone(policydoc.BansText(s.Bans))},
	}
}

func orAll(text string) string {
	if text == "" {
		return "all"
	}
	return text
}

func orRefused(plan string) string {
	if plan == "" {
		return "none: refused"
	}
	return page.Clip(plan, page.MaxName)
}
