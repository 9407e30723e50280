package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// setOf reads the policies, as an edit of those in force.
func setOf(p policydoc.Policy, current *policy.Set) (policy.Set, error) {
	for i := range p.Plans {
		p.Plans[i].Name = strings.TrimSpace(p.Plans[i].Name)
	}
	for i := range p.Routes {
		p.Routes[i].Name = strings.TrimSpace(p.Routes[i].Name)
	}
	p.Version = 0 // If-Match counts
	set, fieldErrors := p.Set(current)
	if len(fieldErrors) > 0 {
		return set, rest.Unprocessable(schema.InBody(fieldErrors, "")...)
	}
	return set, nil
}

type (
	// DryRunQuery asks for the outcome of a change without making it.
	DryRunQuery struct {
		DryRun bool `query:"dry_run" doc:"Shows what would change, and changes nothing"`
	}
	policyInput struct {
		rest.IfMatch
		DryRunQuery
		rest.ReasonQuery
		Body policydoc.Policy
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
	policydoc.Plan
	Keys int64 `json:"keys"`
}

func (a *api) registerPolicy() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy", ID: "get-policy", Role: auth.Viewer,
		Summary: "Plans, route rules and limits on all callers",
	}, a.getPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "PUT /policy", ID: "put-policy", Role: auth.Editor, MaxBody: MaxPolicyBody,
		Summary: "Replace the policies",
		Details: "Needs If-Match and a reason, unless it is a dry run. What is left out is removed. The " +
			"next check obeys.",
	}, a.putPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "POST /policy/sync", ID: "sync-policy", Role: auth.Editor, Status: http.StatusNoContent,
		Summary: "Finish a save that was interrupted",
	}, func(ctx context.Context, _ *rest.None) (*rest.None, error) { return nil, a.Keys.SyncPolicy(ctx) })
	rest.Register(group, rest.Operation{
		Pattern: "GET /plans", ID: "list-plans", Role: auth.Viewer,
		Summary: "Plans and how many keys have each",
	}, a.listPlans)
}

func (a *api) getPolicy(ctx context.Context, _ *rest.None) (*rest.VersionedBody[policydoc.Policy], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return rest.Versioned(set.Version, policydoc.PolicyOf(set)), nil
}

func (a *api) listPlans(ctx context.Context, _ *rest.None) (*plansOutput, error) {
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
		out.Body.Items[i] = PlanKeys{policydoc.PlanOf(p), counts[p.Number]}
	}
	return out, nil
}

func (a *api) putPolicy(ctx context.Context, in *policyInput) (*rest.VersionedBody[Changes], error) {
	save := saving{match: in.IfMatch, dry: in.DryRun, reason: in.Reason}
	if err := save.ready(); err != nil {
		return nil, err
	}
	current, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	next, err := setOf(in.Body, current)
	if err != nil {
		return nil, err
	}
	return a.save(ctx, current, next, save)
}

// saving is how the policies are saved.
type saving struct {
	match  rest.IfMatch
	dry    bool
	reason string
}

// ready asks for what a save needs that is no dry run.
func (s saving) ready() error {
	if s.dry {
		return nil
	}
	if err := s.match.Missing(); err != nil {
		return err
	}
	if strings.TrimSpace(s.reason) == "" {
		return rest.Invalid("query.reason", "is missing: say why, for the audit, in 1 to 200 characters")
	}
	return nil
}

// save makes next the policies, or says what that would change. When nothing differs
// there is nothing to lose, whatever version it was based on: so a save that is sent
// again succeeds.
func (a *api) save(ctx context.Context, current *policy.Set, next policy.Set,
	s saving) (*rest.VersionedBody[Changes], error) {
	out := rest.Versioned(current.Version,
		Changes{Version: current.Version, Changes: policydoc.Diff(current, &next)})
	out.Body.Text = policydoc.Text(out.Body.Changes)
	if len(out.Body.Changes) == 0 {
		out.Body.Changes = []policydoc.Change{}
		return out, nil
	}
	version, err := s.match.Version(current.Version)
	if err != nil {
		return nil, err
	}
	if s.dry {
		return out, next.ValidateAfter(current)
	}
	saved, err := a.Keys.SavePolicy(ctx, next, version, app.NewEdit(ctx, s.reason))
	if errors.Is(err, policy.ErrConflict) && saved != nil {
		return nil, rest.Stale(saved.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	out.ETag, out.Body.Version, out.Body.Applied = rest.ETag(saved.Version), saved.Version, true
	return out, nil
}
