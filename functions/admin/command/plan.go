package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

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
	Trial
	Body PlanBody
}

func (*EditPlan) options(name string) []templates.Option { return degradedOptions(name) }

func (c *EditPlan) fill(context.Context, *Services) error {
	p, _ := c.set.PlanByNumber(c.Number)
	if c.Body.Plan = policydoc.PlanOf(p); c.Body.Degraded == "" {
		c.Body.Degraded = policy.Closed
	}
	c.Body.Limits = c.beside(c.Body.Limits)
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
