package command

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// OnKey is the target of a change of one key.
type OnKey struct {
	target
	ID string `path:"id" doc:"Id of the key, never its secret" example:"aBY2A8bWP166"`
	rest.IfMatch

	set *policy.Set
	key policy.Key
}

// load implements Command. A key that cannot be read has only its id and its status.
func (c *OnKey) load(ctx context.Context, s *Services) (err error) {
	if !app.IsID(c.ID) {
		return policy.ErrNotFound
	}
	if c.key, err = keys.Get(ctx, s.Keys, c.ID); errors.Is(err, policy.ErrUnreadable) {
		c.key, err = policy.Key{ID: c.ID, Name: c.ID, Status: policy.Unreadable}, nil
	}
	if err == nil {
		c.set, err = s.Keys.Set(ctx)
	}
	return err
}

// ready implements Command for a change of active keys.
func (c *OnKey) ready() error { return c.is(policy.Active) }

func (c *OnKey) is(statuses ...policy.Status) error {
	if slices.Contains(statuses, c.key.Status) {
		return nil
	}
	return &Refusal{Status: http.StatusConflict, Heading: "This key is " + string(c.key.Status),
		Advice: "This action is not available for it.", Path: c.subject().Path}
}

func (c *OnKey) subject() Subject {
	path := "/keys/" + c.key.ID
	return Subject{Name: c.key.Name, Version: c.key.Version, Record: c.key.ID, Saved: c.key.Updated, Path: path,
		Trail: []templates.Choice{{Text: "Keys", Address: "/keys"}, {Text: c.key.Name, Address: path}}}
}

// keyChange is a command that changes the record of a key.
type keyChange interface {
	// change returns the change. It finds what the command names in a set, and checks what it
	// sets, whatever the key.
	change(set *policy.Set) (app.KeyChange, error)
}

// do makes the change of a keyChange.
func (c *OnKey) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	change, err := c.self.(keyChange).change(c.set) //nolint:forcetypeassert // others have a do
	if err != nil {
		return Result{}, err
	}
	before := c.key
	saved, err := s.Keys.Change(ctx, c.ID, c.at, change, e)
	return c.saved(before, saved, change.Action, err)
}

// saved keeps the key as a change left it.
func (c *OnKey) saved(before, saved policy.Key, action string, err error) (Result, error) {
	if err == nil || errors.Is(err, policy.ErrConflict) {
		c.key = saved
	}
	return Result{Same: saved.Version == before.Version, Undo: action, Version: saved.Version}, err
}

// preview shows the change of a keyChange.
func (c *OnKey) preview(context.Context, *Services) (*templates.Preview, error) {
	of, ok := c.self.(keyChange)
	if !ok {
		return &templates.Preview{}, nil
	}
	change, err := of.change(c.set)
	if err != nil {
		return nil, err
	}
	after, _ := app.Changed(change, c.set, c.key)
	return &templates.Preview{Changes: changes.OfKey(c.set, c.key, after)}, nil
}

// future returns the error of a time that must not have passed; "" for none.
func future(t time.Time, advice string) string {
	if t.After(time.Now()) {
		return policy.TimeProblem(t)
	}
	return "is " + t.UTC().Format(time.RFC3339) + ": must be in the future; " + advice
}

// fieldError returns the error of a field, if there is a message.
func fieldError(field, message string) error {
	if message == "" {
		return nil
	}
	return policy.Invalid([]policy.FieldError{{Field: field, Message: message}})
}

// below adds the path of a part to the fields that are invalid in it.
func below(path string, err error) error {
	invalid, ok := errors.AsType[*policy.InvalidError](err)
	if !ok {
		return err
	}
	fields := slices.Clone(invalid.Fields)
	for i := range fields {
		fields[i].Field = path + fields[i].Field
	}
	return policy.Invalid(fields)
}

type (
	// Why is a required reason.
	Why struct {
		Reason string `json:"reason" minLength:"1" maxLength:"200" pattern:"\\S" label:"Reason" sample:"Why, with a link if possible"`
	}
	// OptionalReason is a reason that may be missing.
	OptionalReason struct {
		Reason string `json:"reason,omitempty" maxLength:"200" label:"Reason" sample:"Why, with a link if possible"`
	}
	// OptionalBody is a body that has only a reason.
	OptionalBody struct{ Body *OptionalReason }
	// ReasonQuery is the reason of a change without a body.
	ReasonQuery struct {
		Reason string `query:"reason" maxLength:"200" label:"Reason" sample:"Why, with a link if possible" doc:"Reason for the audit"`
	}
)

// Revoke makes calls with a key get 401.
type Revoke struct {
	OnKey
	OptionalBody
}

func (*Revoke) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyRevoke, Alter: func(k *policy.Key) { k.Status = policy.Revoked }}, nil
}

// Unrevoke restores a revoked key.
type Unrevoke struct {
	OnKey
	OptionalBody
}

func (*Unrevoke) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyUnrevoke, Alter: func(k *policy.Key) { k.Status = policy.Active }}, nil
}

func (c *Unrevoke) ready() error { return c.is(policy.Revoked) }

// Ban makes calls with a key get 429 until a time.
type Ban struct {
	OnKey
	Body struct {
		Until time.Time `json:"until" at:"bannedUntil" label:"Expires" never:"Choose a duration" begins:"1h" missing:"Choose how long the ban lasts. To block permanently, revoke the key." doc:"When the ban ends"`
		Why
	}
}

func (c *Ban) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyBan, Alter: func(k *policy.Key) { k.Banned = c.Body.Until.UTC() }},
		fieldError("until", future(c.Body.Until, "to block a key for good, revoke it"))
}

// Unban lifts a ban.
type Unban struct {
	OnKey
	OptionalBody
}

func (*Unban) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyUnban, Alter: func(k *policy.Key) { k.Banned = time.Time{} }}, nil
}

// replaceable returns the limits of e that an override replaces: those of the caller that
// are not in shadow.
func replaceable(e policy.Effective) []limits.Limit {
	return slices.DeleteFunc(slices.Clone(e.Limits), func(l limits.Limit) bool {
		return l.Shadow || !l.Who.OfCaller()
	})
}

// Reset sets the counts of a key to zero.
type Reset struct {
	OnKey
	OptionalBody
}

func (*Reset) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyReset, Alter: func(*policy.Key) {}}, nil
}

// Delete removes a key, even one that cannot be read.
type Delete struct {
	OnKey
	ReasonQuery
}

func (*Delete) ready() error { return nil }

func (c *Delete) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	deleted := c.key
	saved, err := s.Keys.Delete(ctx, c.ID, c.at, e)
	if err != nil {
		return c.saved(deleted, saved, "", err)
	}
	return Result{Done: "Deleted “" + page.Clip(deleted.Name, page.MaxName) + "”.", Path: "/keys"}, nil
}

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
		result.Done = "Saved: " + policydoc.LimitsText(before.Limits) + " → " + wording.Override(o) + ". Effective immediately."
	}
	return result, err
}

// EndOverride makes the limits of the plan apply again.
type EndOverride struct {
	OnKey
	ReasonQuery
}

func (*EndOverride) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyOverrideEnd, Alter: func(k *policy.Key) { k.Override = nil }}, nil
}

func (c *EndOverride) ready() error {
	if err := c.is(policy.Active); err != nil || c.key.Override != nil {
		return err
	}
	return &Refusal{Status: http.StatusNotFound, Heading: "This key has no override",
		Advice: "It may have ended.", Path: c.subject().Path}
}

// Edit sets what a key is: its name, plan, tags, group, routes, billing day and expiry.
type Edit struct {
	OnKey
	Body struct {
		Name    Optional[string]              `json:"name,omitempty" nullable:"false" minLength:"1" maxLength:"100" label:"Name"`
		Tags    Optional[[]string]            `json:"tags,omitempty" maxItems:"10" most:"1000" list:"tags" label:"Tags, separated by commas" sample:"team-a, beta" doc:"Tags; null or [] for none"`
		Plan    Optional[string]              `json:"plan,omitempty" nullable:"false" minLength:"1" maxLength:"100" label:"Plan"`
		Group   Optional[string]              `json:"group,omitempty" maxLength:"64" label:"Group" sample:"none" hint:"Keys in a group share their plan's limits per group." doc:"Group; null or empty for none"`
		Billing Optional[limits.Billing]      `json:"billing,omitempty" label:"Billing day" sample:"1 (UTC)" hint:"Limits per billing month begin on it: a day of the month, such as 15 (Europe/Berlin)." doc:"When the billing months of the key begin; null for the first day of a month in UTC"`
		Expires Optional[time.Time]           `json:"expires,omitempty" label:"Expires" never:"never expires" doc:"Expiry; null for never"`
		Opens   Optional[[]policydoc.Pattern] `json:"opens,omitempty" maxItems:"20" rows:"3" label:"Open routes" sample:"GET /orders/*" hint:"One pattern a line. The plan must open them too. Leave blank for all." doc:"Routes that the key may call; null or [] for all routes of its plan"`
		OptionalReason
	}
}

// Optional is a value that a request may omit, to keep the present one.
type Optional[T any] struct {
	sent  bool
	value *T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	o.sent = true
	return json.Unmarshal(text, &o.value)
}

// Schema implements huma.SchemaProvider: the value or null.
func (Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// given returns the value for a form, which sends every field.
func (o *Optional[T]) given() any {
	if o.sent = true; o.value == nil {
		o.value = new(T)
	}
	return o.value
}

// clear makes the value null.
func (o *Optional[T]) clear() { o.value = nil }

// set sets the value at to the one that was sent, or to its zero value for null.
func (o *Optional[T]) set(to *T) {
	switch {
	case o.value != nil:
		*to = *o.value
	case o.sent:
		*to = *new(T)
	}
}

func (c *Edit) ready() error { return c.is(policy.Active, policy.Revoked) }

func (c *Edit) hides(name string) bool {
	return c.key.ID != "" && c.key.Kind != policy.APIKey && (name == "group" || name == "opens")
}

func (c *Edit) options(name string) []templates.Option {
	if name != "plan" {
		return nil
	}
	plans := wording.PlanOptions(c.set)
	if c.key.Kind != policy.APIKey {
		plans = append([]templates.Option{{Text: "none: use the caller's default plan"}}, plans...)
	}
	return plans
}

func (c *Edit) fill(context.Context, *Services) error {
	b, opens := &c.Body, policydoc.PatternsOf(c.key.Opens)
	b.Name.value, b.Tags.value, b.Plan.value = &c.key.Name, &c.key.Tags, &c.key.Plan
	b.Group.value, b.Billing.value = &c.key.Group, &c.key.Billing
	b.Expires.value, b.Opens.value = &c.key.Expires, &opens
	return nil
}

func (c *Edit) change(*policy.Set) (app.KeyChange, error) {
	var fields []policy.FieldError
	const null = "is null: give a value, or omit it to keep the present one"
	if c.Body.Name.sent && c.Body.Name.value == nil {
		fields = append(fields, policy.FieldError{Field: "name", Message: null})
	}
	if c.Body.Plan.sent && c.Body.Plan.value == nil {
		fields = append(fields, policy.FieldError{Field: "plan", Message: null})
	}
	if t := c.Body.Expires.value; t != nil && !t.Equal(c.key.Expires) {
		if message := future(*t, "to block a key now, revoke it"); message != "" {
			fields = append(fields, policy.FieldError{Field: "expires", Message: message})
		}
	}
	return app.KeyChange{Action: registry.KeyEdit, Alter: c.alter}, policy.Invalid(fields)
}

func (c *Edit) alter(k *policy.Key) {
	b := &c.Body
	b.Name.set(&k.Name)
	b.Plan.set(&k.Plan)
	b.Tags.set(&k.Tags)
	b.Group.set(&k.Group)
	b.Billing.set(&k.Billing)
	if b.Expires.set(&k.Expires); b.Expires.sent {
		k.Expires = k.Expires.UTC()
	}
	if b.Opens.sent {
		var opens []policydoc.Pattern
		b.Opens.set(&opens)
		k.Opens = policydoc.ToPatterns(opens)
	}
	k.Name = strings.TrimSpace(k.Name)
}
