package api

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// setOf returns the set that p describes, as an edit of current.
func setOf(p policydoc.Policy, current *policy.Set) (policy.Set, error) {
	for i := range p.Plans {
		p.Plans[i].Name = strings.TrimSpace(p.Plans[i].Name)
	}
	for i := range p.Routes {
		p.Routes[i].Name = strings.TrimSpace(p.Routes[i].Name)
	}
	p.Version = 0 // If-Match decides instead
	set, fieldErrors := p.Set(current)
	if len(fieldErrors) > 0 {
		return set, rest.Unprocessable(schema.InBody(fieldErrors, "")...)
	}
	return set, nil
}

type (
	// SaveQuery is how a change of the policies is made.
	SaveQuery struct {
		DryRun bool `query:"dry_run" doc:"Returns the changes without saving, with the status of the save: 409 for warnings without accept=true"`
		rest.AcceptQuery
	}
	policyInput struct {
		rest.IfMatch
		SaveQuery
		rest.ReasonQuery
		Body policydoc.Policy
	}
	plansOutput struct {
		Body struct {
			Items []PlanKeys `json:"items"`
		}
	}
)

// Changes is what an edit changes in the policies, or would change in a dry run.
type Changes struct {
	Applied   bool                 `json:"applied" doc:"false after a dry run, and if nothing changed"`
	Version   int64                `json:"version" doc:"Current version"`
	Changes   []policydoc.Change   `json:"changes" doc:"One entry for each changed field"`
	NewCounts []policydoc.NewCount `json:"newCounts" doc:"Limits of the edit that count from zero: their who, unit, on or except is new, or the window or algorithm of one that is not exact"`
	Warnings  []string             `json:"warnings" doc:"What the changes may break, as accept=true confirms"`
	Text      string               `json:"text" doc:"The changes as text" example:"plan free: limits: 10 per 10 seconds → 20 per 10 seconds\n"`
}

// PlanKeys is a plan and the number of its keys.
type PlanKeys struct {
	policydoc.Plan
	Keys int64 `json:"keys"`
}

func (a *api) registerPolicy() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy", ID: "get-policy", Role: auth.Viewer,
		Summary: "Get plans, limits of all callers, and routes",
	}, a.getPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "PUT /policy", ID: "put-policy", Role: auth.Editor, MaxBody: MaxPolicyBody,
		Deadline: auth.Slow, Summary: "Replace the policies",
		Details: "Needs If-Match and a reason, except for a dry run. Every plan, limit, route and setting " +
			"that is missing from the body is removed. Takes effect on the next check.",
	}, a.putPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "GET /plans", ID: "list-plans", Role: auth.Viewer,
		Summary: "List plans and their numbers of keys",
	}, a.listPlans)
}

func (a *api) getPolicy(ctx context.Context, in *rest.IfNoneMatch) (*rest.Cached[policydoc.Policy], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return rest.CachedAs(*in, set.Version, policydoc.PolicyOf(set)), nil
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
	save := saveOptions{in.IfMatch, in.SaveQuery, in.Reason}
	if err := save.missing(); err != nil {
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

// saveOptions are the parameters that putPolicy and importPolicy share.
type saveOptions struct {
	match rest.IfMatch
	SaveQuery
	reason string
}

// missing returns the problem of a save without If-Match or a reason. A dry run needs
// neither.
func (s saveOptions) missing() error {
	if s.DryRun {
		return nil
	}
	if err := s.match.Missing(); err != nil {
		return err
	}
	if strings.TrimSpace(s.reason) == "" {
		return rest.Invalid("query.reason", "is required for the audit: 1 to 200 characters")
	}
	return nil
}

// save replaces the policies by next, or only returns the changes in a dry run, which fails
// as the save would. If nothing differs, it succeeds whatever the version, so that a save
// can be repeated.
func (a *api) save(ctx context.Context, current *policy.Set, next policy.Set,
	s saveOptions) (*rest.VersionedBody[Changes], error) {
	out := rest.Versioned(current.Version,
		Changes{Version: current.Version, Changes: policydoc.Diff(current, &next), Warnings: []string{},
			NewCounts: append([]policydoc.NewCount{}, policydoc.NewCounts(current, &next)...)})
	out.Body.Text = policydoc.Text(out.Body.Changes)
	for _, n := range out.Body.NewCounts {
		out.Body.Text += n.String() + "\n"
	}
	if len(out.Body.Changes) == 0 { // also if a plan is given twice: the changes have the first
		out.Body.Changes = []policydoc.Change{}
		_, err := a.Keys.JudgePolicy(ctx, current, next)
		return out, err
	}
	version, err := s.match.Version(current.Version)
	if err != nil {
		return nil, err
	}
	warnings, err := a.Keys.JudgePolicy(ctx, current, next)
	switch out.Body.Warnings = append(out.Body.Warnings, warnings...); {
	case err != nil:
		return nil, err
	case s.DryRun && len(warnings) > 0 && !s.Accept:
		return nil, &app.UnconfirmedError{Warnings: warnings}
	case s.DryRun:
		return out, nil
	}
	saved, err := a.Keys.SavePolicy(ctx, next, version, app.NewEdit(ctx, s.reason), s.Accepts)
	if errors.Is(err, policy.ErrConflict) && saved != nil {
		return nil, rest.Stale(saved.Version, &version)
	}
	if err != nil {
		return nil, err
	}
	out.ETag, out.Body.Version, out.Body.Applied = rest.ETag(saved.Version), saved.Version, true
	return out, nil
}

type fileInput struct {
	rest.IfMatch
	SaveQuery
	rest.ReasonQuery
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/yaml"`
}

func (a *api) registerPolicyFile() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy.yaml", ID: "export-policy", Role: auth.Viewer,
		Summary: "Export the policies as YAML", Answer: "application/yaml",
		Schema: &huma.Schema{Type: huma.TypeString},
	}, a.exportPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "PUT /policy.yaml", ID: "import-policy", Role: auth.Editor, MaxBody: MaxPolicyBody,
		Deadline: auth.Slow, Summary: "Import the policies from YAML",
		Details: "With dry_run it returns the changes without making them. Otherwise it needs a reason and " +
			"the version that it is based on: If-Match, or the version in the file. Every plan, limit, " +
			"route and setting that is missing from the file is removed.",
	}, a.importPolicy)
}

func (a *api) exportPolicy(ctx context.Context, in *rest.IfNoneMatch) (*rest.Cached[[]byte], error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	text, err := policydoc.Write(set)
	if err != nil {
		return nil, err
	}
	out := rest.CachedAs(*in, set.Version, text)
	out.ContentType = "application/yaml"
	return out, nil
}

func (a *api) importPolicy(ctx context.Context, in *fileInput) (*rest.VersionedBody[Changes], error) {
	if err := isYAML(in.ContentType); err != nil {
		return nil, err
	}
	file, err := policydoc.Read(in.RawBody)
	if err != nil {
		return nil, err
	}
	save := saveOptions{in.IfMatch, in.SaveQuery, in.Reason}
	if save.match.IfMatch == "" && file.Version > 0 && !save.DryRun {
		save.match.IfMatch = rest.ETag(file.Version)
	}
	if err := save.missing(); err != nil {
		return nil, err
	}
	current, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	next, err := file.Edit(current)
	if err != nil {
		return nil, err
	}
	return a.save(ctx, current, *next, save)
}

func isYAML(contentType string) error {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "application/yaml", "application/x-yaml", "text/yaml":
		return nil
	}
	return rest.NewProblem(http.StatusUnsupportedMediaType,
		"The type of the body is not supported: send application/yaml.")
}
