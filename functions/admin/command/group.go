package command

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// OnGroup is the target of a change of a group of keys. What a group has stands in the
// policy, so its version is that of the policy.
type OnGroup struct {
	target
	Name string `path:"name" maxLength:"64" example:"acme"`
	rest.IfMatch

	set   *policy.Set
	group app.Group
}

func (c *OnGroup) load(ctx context.Context, s *Services) (err error) {
	if c.set, err = s.Keys.Set(ctx); err != nil {
		return err
	}
	c.group, err = s.Keys.Group(ctx, c.set, c.Name)
	return noGroup(err)
}

// noGroup is the error of a missing group.
func noGroup(err error) error {
	if errors.Is(err, policy.ErrNotFound) {
		return &Refusal{
			Status:  http.StatusNotFound,
			Heading: "No such group",
			Advice:  "No key is in this group.",
		}
	}
	return err
}

func (c *OnGroup) onGroup() *OnGroup { return c }

func (*OnGroup) ready() error { return nil }

func (c *OnGroup) subject() Subject {
	path := "/groups/" + url.PathEscape(c.Name)
	return Subject{
		Name:    c.Name,
		Version: c.set.Version,
		Record:  app.PolicyRecord,
		Saved:   time.Now(),
		Path:    path,
		Trail:   []templates.Choice{{Text: "Groups", Address: "/groups"}, {Text: c.Name, Address: path}},
	}
}

// follows implements follower: nobody changed the group's override.
func (c *OnGroup) follows(ctx context.Context, s *Services, version int64) (bool, error) {
	return s.Keys.Follows(ctx, version, c.set, func(next *policy.Set) bool {
		c.put(next, policy.Override{Reason: "-"})
		return true
	})
}

// saved keeps the set as a change left it.
func (c *OnGroup) saved(action string, saved *policy.Set, err error) (Result, error) {
	before := c.set.Version
	if saved != nil {
		c.set, c.group.Override, c.group.Billing = saved, nil, saved.GroupBilling[c.Name]
		if o, found := saved.GroupOverrides[c.Name]; found {
			c.group.Override = &o
		}
	}
	return Result{Undo: action, Version: c.set.Version, Same: c.set.Version == before}, noGroup(err)
}

// based returns an edit of the version that the change is based on.
func (c *OnGroup) based(e app.Edit) app.Edit {
	e.Version = max(c.at, 0)
	return e
}

// put gives the group an override in a copy of a set.
func (c *OnGroup) put(next *policy.Set, o policy.Override) {
	all := map[string]policy.Override{}
	maps.Copy(all, next.GroupOverrides)
	all[c.Name] = o
	next.GroupOverrides = all
}

// GroupOverride gives the keys of a group limits in place of their plans'.
type GroupOverride struct {
	OnGroup
	rest.AcceptQuery
	Body keys.Override
}

func (c *GroupOverride) fill(context.Context, *Services) error {
	if c.group.Override != nil {
		c.Body = *keys.OverrideOf(c.group.Override)
	}
	return nil
}

func (c *GroupOverride) warnings(context.Context, *Services) ([]string, error) {
	o, err := c.Body.Read()
	if err != nil {
		return nil, err
	}
	return app.OverrideWarnings(c.set, o.Limits), nil
}

func (c *GroupOverride) preview(context.Context, *Services) (*templates.Preview, error) {
	o, err := c.Body.Read()
	if err != nil {
		return nil, err
	}
	next := *c.set
	c.put(&next, *o)
	return &templates.Preview{Changes: changes.OfPolicy(c.set, &next)}, nil
}

func (c *GroupOverride) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	o, err := c.Body.Read()
	if err != nil {
		return Result{}, err
	}
	saved, err := s.Keys.OverrideGroup(ctx, c.Name, o, c.based(e))
	result, err := c.saved(registry.GroupOverride, saved, err)
	if err != nil || result.Same {
		return result, err
	}
	result.Done = "Saved: " + wording.Override(o) + ". Effective immediately."
	return result, err
}

// EndGroupOverride makes the plans of a group's keys apply again.
type EndGroupOverride struct {
	OnGroup
	ReasonQuery
}

func (c *EndGroupOverride) ready() error {
	if c.group.Override != nil {
		return nil
	}
	return &Refusal{Status: http.StatusNotFound, Heading: "The group has no override",
		Advice: "It may have ended.",
		Path:   c.subject().Path}
}

func (c *EndGroupOverride) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	saved, err := s.Keys.OverrideGroup(ctx, c.Name, nil, c.based(e))
	return c.saved(registry.GroupEnd, saved, err)
}

// BillGroup says when the billing months of a group begin.
type BillGroup struct {
	OnGroup
	Body struct {
		limits.Billing `field:"billing" at:"day,zone" label:"Billing day" sample:"1 (UTC)" hint:"Limits per billing month begin on it: a day of the month, such as 15 (Europe/Berlin)."`
		OptionalReason
	}
}

func (c *BillGroup) fill(context.Context, *Services) error {
	c.Body.Billing = c.group.Billing
	return nil
}

// follows implements follower: nobody changed the group's billing day.
func (c *BillGroup) follows(ctx context.Context, s *Services, version int64) (bool, error) {
	return s.Keys.Follows(ctx, version, c.set, func(next *policy.Set) bool {
		all := map[string]limits.Billing{}
		maps.Copy(all, next.GroupBilling)
		all[c.Name] = limits.Billing{Day: -1}
		next.GroupBilling = all
		return true
	})
}

func (c *BillGroup) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	saved, err := s.Keys.BillGroup(ctx, c.Name, c.Body.Billing, c.based(e))
	return c.saved(registry.GroupBilling, saved, err)
}

// ResetGroup sets the counts of a group to zero.
type ResetGroup struct {
	OnGroup
	OptionalBody
}

func (c *ResetGroup) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	return Result{}, noGroup(s.Keys.ResetGroup(ctx, c.Name, e))
}
