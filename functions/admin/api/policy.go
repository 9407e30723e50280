package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Policy is everything that is configured beside the keys.
type Policy struct {
	Version     int64    `json:"version,omitempty" readOnly:"true" doc:"As in the ETag; If-Match counts, not this"`
	Plans       []Plan   `json:"plans" maxItems:"500"`
	Routes      []Rule   `json:"routes,omitempty" maxItems:"500"`
	PerIP       *Scope   `json:"perIP,omitempty" doc:"Limits per client address"`
	Global      *Scope   `json:"global,omitempty" doc:"Global limits"`
	Deny        []string `json:"deny,omitempty" maxItems:"500" doc:"Networks whose callers are refused" example:"[\"203.0.113.0/24\"]"`
	Allow       []string `json:"allow,omitempty" maxItems:"500" doc:"When there are any, callers from elsewhere are refused"`
	Exempt      []string `json:"exempt,omitempty" maxItems:"500" doc:"Networks whose callers are not limited"`
	TokenPlan   string   `json:"tokenPlan,omitempty" maxLength:"100" doc:"Default plan for JWTs"`
	AddressPlan string   `json:"addressPlan,omitempty" maxLength:"100" doc:"Default plan for addresses"`
	Bans        *Bans    `json:"bans,omitempty"`
}

// Plan is a named list of limits that keys have.
type Plan struct {
	Number    int     `json:"number,omitempty" minimum:"0" doc:"Tells the plan apart for ever; left out, a plan goes by its name"`
	Name      string  `json:"name" minLength:"1" maxLength:"100"`
	Limits    []Limit `json:"limits" minItems:"1" maxItems:"8"`
	Mode      string  `json:"mode,omitempty" enum:"enforce,shadow,off"`
	Degraded  string  `json:"degraded,omitempty" enum:"closed,open,local" doc:"What becomes of calls while Valkey is away"`
	Share     int     `json:"share,omitempty" minimum:"0" maximum:"100" doc:"Percent of limits (local only) that one environment admits"`
	Candidate []Limit `json:"candidate,omitempty" maxItems:"8" doc:"Limits on trial, which deny nothing"`
}

// Rule is a route rule.
type Rule struct {
	Name    string  `json:"name" minLength:"1" maxLength:"100"`
	Pattern Pattern `json:"pattern"`
	Cost    *int64  `json:"cost,omitempty" minimum:"0" maximum:"1000000000" doc:"1 when it is left out; a call of cost 0 is not limited"`
	Settle  bool    `json:"settle,omitempty" doc:"The cost is settled afterwards"`
	Mode    string  `json:"mode,omitempty" enum:"enforce,shadow,off"`
	PerKey  []Limit `json:"perKey,omitempty" maxItems:"8"`
	PerIP   []Limit `json:"perIP,omitempty" maxItems:"8"`
	Shared  []Limit `json:"shared,omitempty" maxItems:"8"`

	SharedLease string `json:"sharedLease,omitempty" maxLength:"40" example:"1s" doc:"Of shared, as lease of a scope"`
	SettleMax   int64  `json:"settleMax,omitempty" minimum:"1" maximum:"1000000000" doc:"Most a settlement charges to limits that callers share, cost at least; 10 times the cost when left out"`
}

// Pattern says which calls a rule is for. What is left out matches any.
type Pattern struct {
	API    string `json:"api,omitempty" maxLength:"64"`
	Stage  string `json:"stage,omitempty" maxLength:"128"`
	Method string `json:"method,omitempty" maxLength:"16" doc:"GET covers HEAD unless a rule names HEAD; ANY is every method"`
	Path   string `json:"path,omitempty" maxLength:"512" example:"/orders/{id}"`
}

// Scope is limits on something other than a caller.
type Scope struct {
	Limits []Limit `json:"limits,omitempty" maxItems:"8"`
	Mode   string  `json:"mode,omitempty" enum:"enforce,shadow,off"`
	Lease  string  `json:"lease,omitempty" maxLength:"40" example:"1s" doc:"Of global alone: how long environments use a share without asking; 10ms to a quarter of the shortest window, logs only. Left out, every call asks"`
}

// Bans is the policy of automatic bans.
type Bans struct {
	Denials int64  `json:"denials" minimum:"2" maximum:"100000"`
	Window  string `json:"window" maxLength:"40" example:"1m"`
	Base    string `json:"base" maxLength:"40" doc:"How long the first ban is; each further one is twice as long" example:"10m"`
	Cap     string `json:"cap" maxLength:"40" doc:"The longest ban" example:"1d"`
}

func policyOf(s *policy.Set) Policy {
	out := Policy{
		Version: s.Version, Plans: make([]Plan, len(s.Plans)), PerIP: scopeOf(s.PerIP),
		Global: scopeOf(s.Global),
		Deny:   texts(s.Deny), Allow: texts(s.Allow), Exempt: texts(s.Exempt), TokenPlan: s.TokenPlan,
		AddressPlan: s.AddressPlan,
	}
	for i, p := range s.Plans {
		out.Plans[i] = planOf(p)
	}
	for _, r := range s.Routes {
		out.Routes = append(out.Routes, Rule{
			Name: r.Name, Pattern: Pattern(r.Pattern), Cost: &r.Cost, Settle: r.Settle,
			SettleMax: r.SettleMax, Mode: string(r.Mode),
			PerKey: limitsOf(r.PerKey), PerIP: limitsOf(r.PerIP), Shared: limitsOf(r.Shared),
			SharedLease: short(r.SharedLease),
		})
	}
	if b := s.Bans; b != nil {
		out.Bans = &Bans{b.Denials, short(b.Window), short(b.Base), short(b.Cap)}
	}
	return out
}

func planOf(p policy.Plan) Plan {
	return Plan{
		Number: p.Number, Name: p.Name, Limits: limitsOf(p.Limits), Mode: string(p.Mode),
		Degraded: string(p.Degraded), Share: p.Share,
		Candidate: limitsOf(p.Candidate),
	}
}

// short is empty for none.
func short(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	text, _ := d.MarshalText() // never fails
	return string(text)
}

func scopeOf(s policy.Scope) *Scope {
	if len(s.Limits) == 0 && s.Mode == "" && s.Lease == 0 {
		return nil
	}
	return &Scope{limitsOf(s.Limits), string(s.Mode), short(s.Lease)}
}

func texts(list []netip.Prefix) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return all
}

// set reads the policies, as an edit of those in force.
func (p *Policy) set(current *policy.Set) (policy.Set, error) {
	var wrong details
	s := policy.Set{
		Plans: make([]policy.Plan, len(p.Plans)), PerIP: wrong.scope("perIP", p.PerIP),
		Global: wrong.scope("global", p.Global),
		Deny:   wrong.networks("deny", p.Deny), Allow: wrong.networks("allow", p.Allow),
		Exempt:    wrong.networks("exempt", p.Exempt),
		TokenPlan: p.TokenPlan, AddressPlan: p.AddressPlan, Bans: wrong.bans(p.Bans),
		NextNumber: current.NextNumber,
	}
	for i, plan := range p.Plans {
		s.Plans[i] = wrong.plan(fmt.Sprintf("plans[%d].", i), plan)
		if known, found := current.Plan(plan.Name); plan.Number == 0 && found {
			s.Plans[i].Number = known.Number
		}
	}
	for i, r := range p.Routes {
		s.Routes = append(s.Routes, wrong.rule(fmt.Sprintf("routes[%d].", i), r))
	}
	return s, wrong.err()
}

func (d *details) plan(at string, p Plan) policy.Plan {
	return policy.Plan{
		Number: p.Number, Name: strings.TrimSpace(p.Name), Limits: d.limits(at+"limits", p.Limits),
		Mode:     policy.Mode(p.Mode),
		Degraded: policy.Degraded(p.Degraded), Share: p.Share,
		Candidate: d.limits(at+"candidate", p.Candidate),
	}
}

func (d *details) rule(at string, r Rule) policy.Route {
	cost := int64(1)
	if r.Cost != nil {
		cost = *r.Cost
	}
	return policy.Route{
		Name: strings.TrimSpace(r.Name), Pattern: route.Pattern(r.Pattern), Cost: cost, Settle: r.Settle,
		SettleMax: r.SettleMax,
		Mode:      policy.Mode(r.Mode),
		PerKey:    d.limits(at+"perKey", r.PerKey), PerIP: d.limits(at+"perIP", r.PerIP),
		Shared:      d.limits(at+"shared", r.Shared),
		SharedLease: d.duration(at+"sharedLease", r.SharedLease),
	}
}

func (d *details) scope(at string, s *Scope) policy.Scope {
	if s == nil {
		return policy.Scope{}
	}
	return policy.Scope{Limits: d.limits(at+".limits", s.Limits), Mode: policy.Mode(s.Mode),
		Lease: d.duration(at+".lease", s.Lease)}
}

// duration reads a time that may be left out.
func (d *details) duration(at, text string) policy.Duration {
	if text == "" {
		return 0
	}
	read, err := limiter.ParseWindow(text)
	d.add(at, err)
	return policy.Duration(read)
}

func (d *details) networks(at string, list []string) []netip.Prefix {
	var all []netip.Prefix
	for i, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			err = errors.New("must be a network such as 203.0.113.0/24")
		}
		d.add(fmt.Sprintf("%s[%d]", at, i), err)
		all = append(all, p)
	}
	return all
}

func (d *details) bans(b *Bans) *policy.Bans {
	if b == nil {
		return nil
	}
	read := func(field, text string) policy.Duration {
		w, err := limiter.ParseWindow(text)
		d.add("bans."+field, err)
		return policy.Duration(w)
	}
	return &policy.Bans{Denials: b.Denials, Window: read("window", b.Window), Base: read("base", b.Base),
		Cap: read("cap", b.Cap)}
}

type (
	policyOutput struct {
		ETag string `header:"ETag"`
		Body Policy
	}
	// Trial asks for the outcome of a change without making it.
	Trial struct {
		DryRun bool `query:"dry_run" doc:"Tells what would change, and changes nothing"`
	}
	policyInput struct {
		IfMatch
		Trial
		Because
		Body Policy
	}
	changesOutput struct {
		ETag string `header:"ETag"`
		Body Changes
	}
	plansOutput struct {
		Body struct {
			Items []PlanKeys `json:"items"`
		}
	}
)

// Changes is what an edit of the policies changes, or would.
type Changes struct {
	Applied bool               `json:"applied" doc:"false after a dry run, and when nothing differs"`
	Version int64              `json:"version" doc:"In force now"`
	Changes []policydoc.Change `json:"changes" doc:"Field by field, in words"`
	Text    string             `json:"text" doc:"The same in lines" example:"plan free: limits: 10 per 10 seconds → 20 per 10 seconds\n"`
}

// PlanKeys is a plan and how many keys have it.
type PlanKeys struct {
	Plan
	Keys int64 `json:"keys"`
}

func (a *api) registerPolicy() {
	const group = "policy"
	register(a, operation{
		pattern: "GET /policy", id: "get-policy",
		summary: "Plans, route rules and what holds for all callers", role: auth.Viewer, group: group,
	}, a.getPolicy)
	register(a, operation{
		pattern: "PUT /policy", id: "put-policy", summary: "Replace them", role: auth.Editor, group: group,
		maxBody: MaxPolicyBody,
		details: "Needs If-Match and a reason, unless it is a dry run. What is left out is removed. The " +
			"next check obeys.",
	}, a.putPolicy)
	register(a, operation{
		pattern: "POST /policy/sync", id: "sync-policy", summary: "Finish a save that was interrupted",
		role: auth.Editor, group: group,
		status: http.StatusNoContent,
	}, func(ctx context.Context, _ *none) (*none, error) { return nil, a.Keys.SyncPolicy(ctx) })
	register(a, operation{
		pattern: "GET /plans", id: "list-plans", summary: "Plans and how many keys have each",
		role: auth.Viewer, group: group,
	}, a.listPlans)
}

func (a *api) getPolicy(ctx context.Context, _ *none) (*policyOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return &policyOutput{etag(set.Version), policyOf(set)}, nil
}

func (a *api) listPlans(ctx context.Context, _ *none) (*plansOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := a.Keys.PlanCounts(ctx, set)
	if err != nil {
		return nil, err
	}
	out := &plansOutput{}
	out.Body.Items = make([]PlanKeys, len(set.Plans))
	for i, p := range set.Plans {
		out.Body.Items[i] = PlanKeys{planOf(p), counts[p.Number]}
	}
	return out, nil
}

func (a *api) putPolicy(ctx context.Context, in *policyInput) (*changesOutput, error) {
	save := saving{match: in.IfMatch, dry: in.DryRun, reason: in.Reason}
	if err := save.ready(); err != nil {
		return nil, err
	}
	current, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	next, err := in.Body.set(current)
	if err != nil {
		return nil, err
	}
	return a.save(ctx, current, next, save)
}

// saving is how the policies are saved.
type saving struct {
	match  IfMatch
	dry    bool
	reason string
}

// ready asks for what a save needs that is no dry run.
func (s saving) ready() error {
	if s.dry {
		return nil
	}
	if err := s.match.missing(); err != nil {
		return err
	}
	if strings.TrimSpace(s.reason) == "" {
		return unprocessable(Detail{Location: "query.reason",
			Message: "is missing: say why, for the audit, in 1 to 200 characters"})
	}
	return nil
}

// save makes next the policies, or tells what that would change. When nothing differs
// there is nothing to lose, whatever version it was based on: so a save that is sent
// again succeeds.
func (a *api) save(ctx context.Context, current *policy.Set, next policy.Set,
	s saving) (*changesOutput, error) {
	out := &changesOutput{ETag: etag(current.Version),
		Body: Changes{Version: current.Version, Changes: policydoc.Diff(current, &next)}}
	out.Body.Text = policydoc.Text(out.Body.Changes)
	if len(out.Body.Changes) == 0 {
		out.Body.Changes = []policydoc.Change{}
		return out, nil
	}
	version, err := s.match.version(current.Version)
	if err != nil {
		return nil, err
	}
	if s.dry {
		return out, next.ValidateAfter(current)
	}
	saved, err := a.Keys.SavePolicy(ctx, next, version, app.NewEdit(ctx, s.reason))
	if errors.Is(err, policy.ErrConflict) && saved != nil {
		return nil, stale(saved.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	out.ETag, out.Body.Version, out.Body.Applied = etag(saved.Version), saved.Version, true
	return out, nil
}
