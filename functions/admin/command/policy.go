package command

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// OnPolicy is the target of a change of the policy. The command is a policyEdit.
type OnPolicy struct {
	target
	rest.IfMatch
	rest.AcceptQuery
	DryRun bool `query:"dry_run" doc:"Returns the changes without saving, with the status of the save: 409 for warnings without accept=true"`

	set  *policy.Set
	next *policy.Set // what the command makes of set
	told []string    // warnings
	plan int         // number of the plan that it edits; 0 for none
}

// policyEdit is a command that changes the policy.
type policyEdit interface {
	// apply makes the change in a copy of a set, whose lists of plans and routes are copies
	// too. It fails with policy.ErrNotFound without what it changes.
	apply(next *policy.Set) error
	// part is the path of what the command changes, with a dot at its end; empty for all.
	part() string
	// done is the message after a save.
	done() string
}

func (c *OnPolicy) load(ctx context.Context, s *Services) (err error) {
	c.set, err = s.Keys.Set(ctx)
	return err
}

func (*OnPolicy) ready() error { return nil }

func (c *OnPolicy) subject() Subject {
	return Subject{Version: c.set.Version, Record: app.PolicyRecord, Saved: time.Now(), Path: "/policies",
		Trail: []templates.Choice{{Text: "Policies", Address: "/policies"}}}
}

// Missing is rest.IfMatch.Missing. A dry run needs no version.
func (c *OnPolicy) Missing() error {
	if c.DryRun {
		return nil
	}
	return c.IfMatch.Missing()
}

// Version is rest.IfMatch.Version, but a command that changes nothing succeeds whatever the
// version, so that it can be repeated.
func (c *OnPolicy) Version(current int64) (int64, error) {
	if c.apply() == nil && len(policydoc.Diff(c.set, c.next)) == 0 {
		return current, nil
	}
	return c.IfMatch.Version(current)
}

func (c *OnPolicy) edit() policyEdit { return c.self.(policyEdit) } //nolint:forcetypeassert // see OnPolicy

// apply sets next to what the command makes of the set.
func (c *OnPolicy) apply() error {
	next := copied(c.set)
	c.next = next
	return c.edit().apply(next)
}

// copied returns a copy of a set with its lists of plans and routes, whose elements can be
// replaced.
func copied(set *policy.Set) *policy.Set {
	next := *set
	next.Plans, next.Routes = slices.Clone(set.Plans), slices.Clone(set.Routes)
	return &next
}

// edited returns the set by whose limits an error is described.
func (c *OnPolicy) edited() *policy.Set {
	if c.next != nil {
		return c.next
	}
	return c.set
}

// inPart names invalid fields as those of what the command changes.
func (c *OnPolicy) inPart(err error) error {
	invalid, ok := errors.AsType[*policy.InvalidError](err)
	if !ok {
		return err
	}
	fields := slices.Clone(invalid.Fields)
	for i := range fields {
		fields[i].Field = strings.TrimPrefix(fields[i].Field, c.edit().part())
	}
	return policy.Invalid(fields)
}

func (c *OnPolicy) warnings(ctx context.Context, s *Services) ([]string, error) {
	if err := c.apply(); err != nil {
		return nil, err
	}
	var err error
	c.told, err = s.Keys.JudgePolicy(ctx, c.set, *c.next)
	return c.told, c.inPart(err)
}

// preview implements previewer: what changes, and which limits count from zero after it.
func (c *OnPolicy) preview(ctx context.Context, s *Services) (*templates.Preview, error) {
	if err := c.apply(); err != nil {
		return nil, err
	}
	if _, err := s.Keys.JudgePolicy(ctx, c.set, *c.next); err != nil {
		return nil, c.inPart(err)
	}
	p := &templates.Preview{Changes: changes.OfPolicy(c.set, c.next)}
	n := page.Number(int64(len(p.Changes))) + " changes"
	if len(p.Changes) == 1 {
		n = "1 change"
	}
	if c.plan > 0 {
		counts, err := s.Keys.PlanCounts(ctx, c.set)
		if err != nil {
			return nil, err
		}
		n += " for " + app.KeyCount(counts[c.plan])
	}
	p.Effects = []string{n + "."}
	for _, count := range policydoc.NewCounts(c.set, c.next) {
		p.Effects = append(p.Effects, page.Clip(count.String(), wording.MaxText)+".")
	}
	if of, found := c.set.PlanByNumber(c.plan); found && s.PlanEffects != nil {
		effects, err := s.PlanEffects(ctx, c.set, of)
		if err != nil {
			return nil, err
		}
		p.Effects = append(p.Effects, effects...)
	}
	return p, nil
}

// follows implements follower: others changed other parts only.
func (c *OnPolicy) follows(ctx context.Context, s *Services, version int64) (bool, error) {
	if c.edit().part() == "" {
		return false, nil
	}
	return s.Keys.Follows(ctx, version, c.set, func(next *policy.Set) bool { return c.edit().apply(next) == nil })
}

func (c *OnPolicy) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	if err := c.apply(); err != nil {
		return Result{}, err
	}
	same := len(policydoc.Diff(c.set, c.next)) == 0
	if same || c.DryRun {
		return Result{Same: same, Version: c.set.Version}, nil
	}
	if e.Reason == "" {
		return Result{}, fieldError("reason", "is required for the audit: 1 to 200 characters")
	}
	version := c.at
	if version == registry.AnyVersion {
		version = c.set.Version
	}
	saved, err := s.Keys.SavePolicy(ctx, *c.next, version, e)
	if err != nil {
		if saved != nil {
			c.set = saved
		}
		return Result{}, c.inPart(err)
	}
	return Result{Done: c.edit().done() + " Effective immediately.", Undo: registry.PolicySave,
		Version: saved.Version}, nil
}

// Changes is what an edit changes in the policies, or would change in a dry run.
type Changes struct {
	Applied   bool                 `json:"applied" doc:"false after a dry run, and if nothing changed"`
	Version   int64                `json:"version" doc:"Current version"`
	Changes   []policydoc.Change   `json:"changes" doc:"One entry for each changed field"`
	NewCounts []policydoc.NewCount `json:"newCounts" doc:"Limits of the edit that count from zero: their who, unit, on or except is new, or the window or algorithm of one that is not exact"`
	Warnings  []string             `json:"warnings" doc:"What the changes may break, as accept=true confirms"`
	Text      string               `json:"text" doc:"The changes as text" example:"plan free: limits: 10 per 10 seconds → 20 per 10 seconds\n"`
}

// answer describes what the command changed.
func (c *OnPolicy) answer(r Result) *rest.VersionedBody[Changes] {
	out := Changes{Applied: !r.Same && !c.DryRun, Version: r.Version,
		Changes:   append([]policydoc.Change{}, policydoc.Diff(c.set, c.next)...),
		NewCounts: append([]policydoc.NewCount{}, policydoc.NewCounts(c.set, c.next)...),
		Warnings:  append([]string{}, c.told...)}
	out.Text = policydoc.Text(out.Changes)
	for _, n := range out.NewCounts {
		out.Text += n.String() + "\n"
	}
	return rest.Versioned(r.Version, out)
}

// notFound is the error of a missing plan or route.
func notFound(what string) error {
	return &Refusal{Status: http.StatusNotFound, Heading: what + " not found",
		Advice: "It may have been deleted or renamed.", Path: "/policies"}
}

// OnPlan is the target of a change of one plan.
type OnPlan struct {
	OnPolicy
	Number int `path:"number" minimum:"1" doc:"Number of the plan"`
}

func (c *OnPlan) ready() error {
	c.plan = c.Number
	if _, found := c.set.PlanByNumber(c.Number); !found {
		return notFound("Plan")
	}
	return nil
}

func (c *OnPlan) subject() Subject {
	of := c.OnPolicy.subject()
	p, found := c.set.PlanByNumber(c.Number)
	if !found {
		return of
	}
	of.Name, of.Path = p.Name, "/policies/plans/"+strconv.Itoa(c.Number)
	of.Trail = append(of.Trail, templates.Choice{Text: p.Name, Address: of.Path})
	return of
}

func (c *OnPlan) lead(ctx context.Context, s *Services) ([]string, error) {
	counts, err := s.Keys.PlanCounts(ctx, c.set)
	return []string{"Keys with this plan: " + page.Number(counts[c.Number]) + "."}, err
}

// PlanBody is a plan with the reason of its change.
type PlanBody struct {
	policydoc.Plan
	Why
}

// plan returns the plan. Bad input is a *policy.InvalidError.
func (b *PlanBody) policyPlan() (policy.Plan, error) {
	list, fields := policydoc.ToLimits("limits", b.Limits)
	p := policy.Plan{Name: strings.TrimSpace(b.Name), Limits: list, Degraded: b.Degraded,
		Opens: policydoc.ToPatterns(b.Opens)}
	if p.Degraded == "" {
		p.Degraded = policy.Closed
	}
	if p.Degraded == policy.Local {
		p.Share = b.Share
	}
	return p, policy.Invalid(fields)
}

func degradedOptions(name string) []templates.Option {
	if name != "degraded" {
		return nil
	}
	return []templates.Option{
		{Value: string(policy.Closed), Text: "closed: calls are denied"},
		{Value: string(policy.Open), Text: "open: known callers pass, uncounted"},
		{Value: string(policy.Local), Text: "local: each environment counts for itself"},
	}
}

// CreatePlan creates a plan.
type CreatePlan struct {
	OnPolicy
	Body PlanBody
}

func (c *CreatePlan) apply(next *policy.Set) error {
	p, err := c.Body.policyPlan()
	next.Plans = append(next.Plans, p)
	return err
}

func (c *CreatePlan) part() string { return fmt.Sprintf("plans[%d].", len(c.set.Plans)) }
func (c *CreatePlan) done() string {
	return "Saved the plan " + page.Clip(c.Body.Name, page.MaxName) + "."
}

func (*CreatePlan) options(name string) []templates.Option { return degradedOptions(name) }

func (c *CreatePlan) fill(context.Context, *Services) error {
	c.Body.Degraded = policy.Closed
	return nil
}

// EditPlan replaces a plan. Its keys keep it, also under a new name.
type EditPlan struct {
	OnPlan
	Body PlanBody
}

func (*EditPlan) options(name string) []templates.Option { return degradedOptions(name) }

func (c *EditPlan) fill(context.Context, *Services) error {
	p, _ := c.set.PlanByNumber(c.Number)
	if c.Body.Plan = policydoc.PlanOf(p); c.Body.Degraded == "" {
		c.Body.Degraded = policy.Closed
	}
	return nil
}

func (c *EditPlan) apply(next *policy.Set) error {
	i := planIndex(next, c.Number)
	if i < 0 {
		return policy.ErrNotFound
	}
	p, err := c.Body.policyPlan()
	p.Number = c.Number
	old := next.Plans[i]
	// The default plans are stored by name, so a new name changes them too.
	if next.TokenPlan == old.Name {
		next.TokenPlan = p.Name
	}
	if next.AddressPlan == old.Name {
		next.AddressPlan = p.Name
	}
	next.Plans[i] = p
	return err
}

func (c *EditPlan) part() string { return fmt.Sprintf("plans[%d].", planIndex(c.set, c.Number)) }
func (c *EditPlan) done() string {
	return "Saved the plan " + page.Clip(c.Body.Name, page.MaxName) + "."
}

func planIndex(set *policy.Set, number int) int {
	return slices.IndexFunc(set.Plans, func(p policy.Plan) bool { return p.Number == number })
}

// DeletePlan deletes a plan that no key has.
type DeletePlan struct {
	OnPlan
	RequiredQuery
}

func (c *DeletePlan) lead(ctx context.Context, s *Services) ([]string, error) {
	p, _ := c.set.PlanByNumber(c.Number)
	lead, err := c.OnPlan.lead(ctx, s)
	return append(lead, policydoc.PlanText(p)+"."), err
}

func (c *DeletePlan) apply(next *policy.Set) error {
	i := planIndex(next, c.Number)
	if i < 0 {
		return policy.ErrNotFound
	}
	next.Plans = slices.Delete(next.Plans, i, i+1)
	return nil
}

func (*DeletePlan) part() string { return "plans." }
func (*DeletePlan) done() string { return "Plan deleted." }

// RouteBody is a route with the reason of its change.
type RouteBody struct {
	policydoc.Route
	Why
}

// policyRoute returns the route. Bad input is a *policy.InvalidError.
func (b *RouteBody) policyRoute() (limits.Route, error) {
	r := limits.Route{Name: strings.TrimSpace(b.Name), Match: policydoc.ToPatterns(b.Match), Settle: b.Settle,
		Scopes: b.Scopes}
	if b.Cost == nil {
		return r, nil
	}
	var fields []policy.FieldError
	r.Cost, fields = b.Cost.Read("cost")
	return r, policy.Invalid(fields)
}

// CreateRoute creates a route.
type CreateRoute struct {
	OnPolicy
	Body RouteBody
}

func (c *CreateRoute) apply(next *policy.Set) error {
	r, err := c.Body.policyRoute()
	next.Routes = append(next.Routes, r)
	return err
}

func (c *CreateRoute) part() string { return fmt.Sprintf("routes[%d].", len(c.set.Routes)) }
func (c *CreateRoute) done() string {
	return "Saved the route " + page.Clip(c.Body.Name, page.MaxName) + "."
}

// OnRoute is the target of a change of one route, whose name may have a slash.
type OnRoute struct {
	OnPolicy
	Of string `query:"route" required:"true" maxLength:"400" doc:"Name of the route"`
}

func (c *OnRoute) query() url.Values { return url.Values{"route": {c.Of}} }

func (c *OnRoute) ready() error {
	if _, found := c.set.Route(c.Of); !found {
		return notFound("Route")
	}
	return nil
}

func (c *OnRoute) subject() Subject {
	of := c.OnPolicy.subject()
	of.Name = c.Of
	return of
}

// EditRoute replaces a route. Limits that name it follow its new name.
type EditRoute struct {
	OnRoute
	Body RouteBody
}

func (c *EditRoute) fill(context.Context, *Services) error {
	c.Body.Route = policydoc.PolicyOf(c.set).Routes[routeIndex(c.set, c.Of)]
	return nil
}

func (c *EditRoute) apply(next *policy.Set) error {
	i := routeIndex(next, c.Of)
	if i < 0 {
		return policy.ErrNotFound
	}
	r, err := c.Body.policyRoute()
	r.ID = next.Routes[i].ID
	next.Routes[i] = r
	renameRoute(next, c.Of, r.Name)
	return err
}

func (c *EditRoute) part() string { return fmt.Sprintf("routes[%d].", routeIndex(c.set, c.Of)) }
func (c *EditRoute) done() string {
	return "Saved the route " + page.Clip(c.Body.Name, page.MaxName) + "."
}

func routeIndex(set *policy.Set, name string) int {
	return slices.IndexFunc(set.Routes, func(r limits.Route) bool { return r.Name == name })
}

// renameRoute changes the name of a route in the limits of plans and of all callers. It
// copies them, since the saved set shares them. Overrides follow by themselves.
func renameRoute(s *policy.Set, from, to string) {
	if from == to {
		return
	}
	rename := func(list []limits.Limit) []limits.Limit {
		list = slices.Clone(list)
		for i := range list {
			l := &list[i]
			if l.On == from {
				l.On = to
			}
			if at := slices.Index(l.Except, from); at >= 0 {
				l.Except = slices.Clone(l.Except)
				l.Except[at] = to
				slices.Sort(l.Except)
			}
		}
		return list
	}
	for i := range s.Plans {
		s.Plans[i].Limits = rename(s.Plans[i].Limits)
	}
	s.Limits = rename(s.Limits)
}

// DeleteRoute deletes a route that no limit names.
type DeleteRoute struct {
	OnRoute
	RequiredQuery
}

func (c *DeleteRoute) lead(context.Context, *Services) ([]string, error) {
	r, _ := c.set.Route(c.Of)
	return []string{policydoc.RouteText(r) + "."}, nil
}

func (c *DeleteRoute) apply(next *policy.Set) error {
	i := routeIndex(next, c.Of)
	if i < 0 {
		return policy.ErrNotFound
	}
	next.Routes = slices.Delete(next.Routes, i, i+1)
	return nil
}

func (*DeleteRoute) part() string { return "routes." }
func (*DeleteRoute) done() string { return "Route deleted." }

// AllCallers sets what applies to all callers: limits, lists of networks, and the plans of
// callers without a key.
type AllCallers struct {
	OnPolicy
	Body struct {
		Limits      []policydoc.Limit `json:"limits,omitempty" maxItems:"200" label:"Limits, one a line" hint:"Beside those of plans. Each says for whom it counts: each caller, each group, each address, each {parameter}, or together."`
		Deny        []string          `json:"deny,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Refused addresses" sample:"203.0.113.0/24" hint:"Calls from here are refused."`
		Allow       []string          `json:"allow,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Allowed addresses" sample:"203.0.113.0/24" hint:"If set, calls from elsewhere are refused."`
		Exempt      []string          `json:"exempt,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Exempt addresses" sample:"203.0.113.0/24" hint:"Calls from here are not limited."`
		TokenPlan   string            `json:"tokenPlan,omitempty" maxLength:"100" rare:"Plans of callers without a key" label:"Default plan for JWTs"`
		AddressPlan string            `json:"addressPlan,omitempty" maxLength:"100" rare:"Plans of callers without a key" label:"Default plan for addresses"`
		Why
	}
}

func (c *AllCallers) options(name string) []templates.Option {
	if name != "tokenPlan" && name != "addressPlan" {
		return nil
	}
	return append([]templates.Option{{Text: "none: calls are refused"}}, wording.PlanOptions(c.set)...)
}

func (c *AllCallers) fill(context.Context, *Services) error {
	b, p := &c.Body, policydoc.PolicyOf(c.set)
	b.Limits, b.Deny, b.Allow, b.Exempt = p.Limits, p.Deny, p.Allow, p.Exempt
	b.TokenPlan, b.AddressPlan = p.TokenPlan, p.AddressPlan
	return nil
}

func (c *AllCallers) apply(next *policy.Set) error {
	b, p := &c.Body, policydoc.Policy{}
	p.Limits, p.Deny, p.Allow, p.Exempt = b.Limits, b.Deny, b.Allow, b.Exempt
	set, fields := p.Set(next)
	next.Limits, next.Deny, next.Allow, next.Exempt = set.Limits, set.Deny, set.Allow, set.Exempt
	next.TokenPlan, next.AddressPlan = b.TokenPlan, b.AddressPlan
	return policy.Invalid(fields)
}

func (*AllCallers) part() string { return "-" } // its fields have the paths of the set
func (*AllCallers) done() string { return "Saved limits for all callers." }

// RequiredQuery is the reason of a change without a body that needs one.
type RequiredQuery struct {
	Reason string `query:"reason" minLength:"1" maxLength:"200" label:"Reason" sample:"Why, with a link if possible" doc:"Reason for the audit: up to 200 characters"`
}

// PutPolicy replaces the policy.
type PutPolicy struct {
	OnPolicy
	ReasonQuery
	Body policydoc.Policy
}

func (c *PutPolicy) apply(next *policy.Set) error {
	p := c.Body
	p.Plans, p.Routes = slices.Clone(p.Plans), slices.Clone(p.Routes)
	for i := range p.Plans {
		p.Plans[i].Name = strings.TrimSpace(p.Plans[i].Name)
	}
	for i := range p.Routes {
		p.Routes[i].Name = strings.TrimSpace(p.Routes[i].Name)
	}
	p.Version = 0 // If-Match decides instead
	set, fields := p.Set(next)
	*next = set
	return policy.Invalid(fields)
}

func (*PutPolicy) part() string { return "" }
func (*PutPolicy) done() string { return "Saved the policies." }

// ImportPolicy replaces the policy by a file.
type ImportPolicy struct {
	OnPolicy
	ReasonQuery
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/yaml" field:"yaml" rows:"20" label:"Policy file (YAML)"`
}

// Missing is OnPolicy.Missing. The version in the file is one too.
func (c *ImportPolicy) Missing() error {
	switch kind, _, _ := mime.ParseMediaType(c.ContentType); kind {
	case "application/yaml", "application/x-yaml", "text/yaml":
	default:
		return rest.NewProblem(http.StatusUnsupportedMediaType,
			"The type of the body is not supported: send application/yaml.")
	}
	file, err := policydoc.Read(c.RawBody)
	if err == nil && c.IfMatch.IfMatch == "" && file.Version > 0 && !c.DryRun {
		c.IfMatch.IfMatch = rest.ETag(file.Version)
	}
	if err != nil {
		return err
	}
	return c.OnPolicy.Missing()
}

func (c *ImportPolicy) apply(next *policy.Set) error {
	file, err := policydoc.Read(c.RawBody)
	if err != nil {
		return err
	}
	set, err := file.Edit(next)
	if err != nil {
		return err
	}
	*next = *set
	return nil
}

func (*ImportPolicy) part() string { return "" }

func (c *ImportPolicy) done() string {
	n := len(changes.OfPolicy(c.set, c.next))
	if n == 1 {
		return "Imported 1 change."
	}
	return "Imported " + page.Number(int64(n)) + " changes."
}

// Preview is OnPolicy.Preview. A page refuses a file of another version.
func (c *ImportPolicy) preview(ctx context.Context, s *Services) (*templates.Preview, error) {
	p, err := c.OnPolicy.preview(ctx, s)
	if err != nil {
		return nil, err
	}
	file, err := policydoc.Read(c.RawBody)
	if err == nil && file.Version != 0 && file.Version != c.set.Version {
		err = fieldError("yaml", fmt.Sprintf("has version %d, the current version is %d. Nothing was saved. "+
			"Review the changes, then remove the version line to import anyway", file.Version, c.set.Version))
	}
	return p, err
}
