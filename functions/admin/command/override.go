package command

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// Override gives a key limits in place of its plan's.
type Override struct {
	OnKey
	rest.AcceptQuery
	Body keys.Override
}

func (c *Override) change(*policy.Set) (app.KeyChange, error) {
	o, err := c.Body.Read()
	return app.KeyChange{Action: registry.KeyOverride, Alter: func(k *policy.Key) { k.Override = o }}, err
}

// fill implements filler: the form begins with the override, or the limits that it would
// replace.
func (c *Override) fill(context.Context, *Services) error {
	e, _ := c.set.Effective(c.key, time.Now())
	o := policy.Override{Limits: replaceable(e)}
	if e.Source == "override" {
		o = *e.Override
	}
	c.Body = *keys.OverrideOf(&o)
	return nil
}

func (c *Override) lead(ctx context.Context, s *Services) ([]string, error) {
	last, err := c.lastDenial(ctx, s)
	if err != nil || last == "" {
		return nil, err
	}
	return []string{last}, nil
}

// lastDenial names the limit that denied a key last, and says whether an override reaches
// it; empty for none in the last 50 hours.
func (c *OnKey) lastDenial(ctx context.Context, s *Services) (string, error) {
	states, err := s.Records.States(ctx, []string{c.key.ID})
	if err != nil {
		return "", err
	}
	e, _ := c.set.Effective(c.key, time.Now())
	last, found := app.NewSubject(c.set, c.key, nil, states[0], time.Now()).LastDenial()
	if !found {
		return "", nil
	}
	text := "Denied last by " + page.Clip(last.Limit, page.MaxName)
	for _, a := range c.set.Language().Candidates(e.Caller) {
		switch {
		case answer.NameOf(a.Limit) != last.Limit || a.CountsOnly:
		case a.Who.OfCaller():
			return text + ". An override reaches it.", nil
		default:
			return text + ". No override reaches it: it is " + a.For() + ".", nil
		}
	}
	return text + ", which is no longer in force.", nil
}

func (c *Override) warnings(context.Context, *Services) ([]string, error) {
	o, err := c.Body.Read()
	if err != nil {
		return nil, err
	}
	return app.OverrideWarnings(c.set, o.Limits), nil
}

func (c *Override) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	before, _ := c.set.Effective(c.key, time.Now())
	result, err := c.OnKey.do(ctx, s, e)
	switch o := c.key.Override; {
	case err != nil || o == nil:
	case result.Same:
		result.Done = "Nothing changed. Limits are still " + wording.Override(o) + "."
	default:
		result.Done = "Saved: " + policydoc.LimitsText(before.Limits) + " → " + wording.Override(o) +
			". Effective immediately."
	}
	return result, err
}

// EndOverride makes the limits of the plan apply again.
type EndOverride struct {
	OnKey
	ReasonQuery
}

func (*EndOverride) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{
		Action: registry.KeyOverrideEnd,
		Alter:  func(k *policy.Key) { k.Override = nil },
	}, nil
}

// lead implements leader: which limit of the plan denies the next call, and how long. The
// limits that an override replaces go on counting.
func (c *EndOverride) lead(ctx context.Context, s *Services) ([]string, error) {
	k := c.key
	k.Override = nil
	after, _, err := s.Keys.Survey(ctx, c.set, k)
	if err != nil || len(after.Deniers) == 0 {
		return nil, err
	}
	d := after.Deniers[0]
	text := page.Clip(d.Limit, page.MaxName) + " is used up: the next call"
	if d.Part != "" {
		text += " " + d.Part
	}
	if d.Until.IsZero() {
		return []string{text + " is denied, whenever it comes."}, nil
	}
	return []string{text + " passes in " + page.Span(d.Until.Sub(after.At)) + "."}, nil
}

func (c *EndOverride) ready() error {
	if err := c.is(policy.Active); err != nil || c.key.Override != nil {
		return err
	}
	return &Refusal{Status: http.StatusNotFound, Heading: "This key has no override",
		Advice: "It may have ended.", Path: c.subject().Path}
}
