package command

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Trial is the part of the address of a form of limits that names a limit, in words. The
// form begins with a stricter one beside it, in shadow.
type Trial struct {
	Try string `page:"try"`
}

// beside returns the list with the stricter limit, if it has the named one.
func (t Trial) beside(list []policydoc.Limit) []policydoc.Limit {
	at := slices.IndexFunc(list, func(l policydoc.Limit) bool { return l.String() == t.Try })
	if at < 0 {
		return list
	}
	half := list[at]
	half.Requests = max(1, half.Requests/2)
	half.Shadow, half.Notify = true, nil
	return slices.Insert(slices.Clone(list), at+1, half)
}

// Enforce takes the mark from a limit in shadow, of a plan or for all callers.
type Enforce struct {
	OnPolicy
	Plan  int    `query:"plan" minimum:"1" doc:"Number of the plan; without it, the limit is for all callers"`
	Limit string `query:"limit" required:"true" maxLength:"1000" doc:"The limit in words" example:"60 per minute, shadow"`
	Body  struct{ Why }
}

func (c *Enforce) query() url.Values {
	v := url.Values{"limit": {c.Limit}}
	if c.Plan != 0 {
		v.Set("plan", strconv.Itoa(c.Plan))
	}
	return v
}

func (c *Enforce) ready() error {
	c.plan, c.everyone = c.Plan, c.Plan == 0
	if list, at := c.in(c.set); list == nil || at < 0 {
		return &Refusal{Status: http.StatusNotFound, Heading: "Limit in shadow not found",
			Advice: "It may have been changed or enforced.", Path: c.subject().Path}
	}
	return nil
}

// in returns the list of the set that has the limit, and its index; below 0 without it.
func (c *Enforce) in(set *policy.Set) (list *[]limits.Limit, at int) {
	if list = &set.Limits; c.Plan != 0 {
		i := planIndex(set, c.Plan)
		if i < 0 {
			return nil, -1
		}
		list = &set.Plans[i].Limits
	}
	return list, slices.IndexFunc(*list, func(l limits.Limit) bool {
		return l.Shadow && l.String() == c.Limit
	})
}

func (c *Enforce) subject() Subject {
	if c.Plan != 0 {
		return (&OnPlan{OnPolicy: c.OnPolicy, Number: c.Plan}).subject()
	}
	return c.OnPolicy.subject()
}

func (c *Enforce) heading() string {
	if c.Plan == 0 {
		return "Enforce a limit for all callers"
	}
	return "Enforce a limit of plan"
}

func (c *Enforce) lead(context.Context, *Services) ([]string, error) {
	limit := page.Clip(c.Limit, wording.MaxText)
	return []string{limit + ": calls over it are denied from the next check."}, nil
}

func (c *Enforce) apply(next *policy.Set) error {
	list, at := c.in(next)
	if at < 0 {
		return policy.ErrNotFound
	}
	*list = slices.Clone(*list) // the saved set shares it
	(*list)[at].Shadow = false
	return nil
}

func (c *Enforce) part() string {
	if c.Plan == 0 {
		return "-"
	}
	return fmt.Sprintf("plans[%d].", planIndex(c.set, c.Plan))
}

func (*Enforce) done() string { return "Limit enforced." }

// useEffects adds what the use of the plan, or of all callers, tells of the edit.
func (c *OnPolicy) useEffects(ctx context.Context, s *Services, p *templates.Preview) error {
	if s.Effects == nil || c.plan == 0 && !c.everyone {
		return nil
	}
	effects, err := s.Effects(ctx, c.set, c.next, c.plan)
	p.Effects = append(p.Effects, effects...)
	return err
}
