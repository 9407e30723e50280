package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
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

	set      *policy.Set
	next     *policy.Set // what the command makes of set
	told     []string    // warnings
	plan     int         // number of the plan that it edits; 0 for none
	everyone bool        // it edits the limits for all callers
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
	return p, c.useEffects(ctx, s, p)
}

// follows implements follower: others changed other parts only.
func (c *OnPolicy) follows(ctx context.Context, s *Services, version int64) (bool, error) {
	if c.edit().part() == "" {
		return false, nil
	}
	return s.Keys.Follows(ctx, version, c.set,
		func(next *policy.Set) bool { return c.edit().apply(next) == nil })
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
