package command

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
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
	return Subject{
		Name:    c.key.Name,
		Version: c.key.Version,
		Record:  c.key.ID,
		Saved:   c.key.Updated,
		Path:    path,
		Trail:   []templates.Choice{{Text: "Keys", Address: "/keys"}, {Text: c.key.Name, Address: path}},
	}
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
	return app.KeyChange{
			Action: registry.KeyRevoke,
			Alter:  func(k *policy.Key) { k.Status = policy.Revoked },
		},
		nil
}

// Unrevoke restores a revoked key.
type Unrevoke struct {
	OnKey
	OptionalBody
}

func (*Unrevoke) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{Action: registry.KeyUnrevoke,
		Alter: func(k *policy.Key) { k.Status = policy.Active }}, nil
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
	return app.KeyChange{
			Action: registry.KeyBan,
			Alter:  func(k *policy.Key) { k.Banned = c.Body.Until.UTC() },
		},
		fieldError("until", future(c.Body.Until, "to block a key for good, revoke it"))
}

// Unban lifts a ban.
type Unban struct {
	OnKey
	OptionalBody
}

func (*Unban) change(*policy.Set) (app.KeyChange, error) {
	return app.KeyChange{
		Action: registry.KeyUnban,
		Alter:  func(k *policy.Key) { k.Banned = time.Time{} },
	}, nil
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
