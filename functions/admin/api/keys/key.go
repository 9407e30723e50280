package keys

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

// Key is a key without its secret, or the override and the ban of a caller that others
// vouch for.
type Key struct {
	ID       string              `json:"id"`
	Kind     string              `json:"kind" enum:"key,token,address"`
	Name     string              `json:"name"`
	Env      string              `json:"env,omitempty"`
	Foreign  bool                `json:"foreign,omitempty" doc:"Another system made its value"`
	Tags     []string            `json:"tags,omitempty"`
	Plan     string              `json:"plan"`
	Group    string              `json:"group,omitempty" doc:"That it shares the plan's limits per group with"`
	Status   string              `json:"status" enum:"active,revoked,unreadable"`
	Override *Override           `json:"override,omitempty"`
	Allow    []policydoc.Pattern `json:"allow,omitempty" doc:"Routes that the key may call, of those that its plan opens; left out, all of them"`
	Expires  *time.Time          `json:"expires,omitempty"`
	Banned   *time.Time          `json:"bannedUntil,omitempty" doc:"Until when it is banned; a ban by the policy is told where a key's states are"`
	Grace    *time.Time          `json:"graceUntil,omitempty" doc:"Until when the secret before the last rotation is good"`
	Version  int64               `json:"version"`
	Created  *time.Time          `json:"created,omitempty"`
	Updated  *time.Time          `json:"updated,omitempty"`
}

// Override replaces the limits of a key's plan.
type Override struct {
	Limits []policydoc.Limit `json:"limits,omitempty" maxItems:"8" doc:"1 to 8; none with mode off"`
	Mode   string            `json:"mode,omitempty" enum:"enforce,shadow,off"`
	Until  *time.Time        `json:"until,omitempty" doc:"When the plan is back in force; never when it is left out"`
	Reason string            `json:"reason" minLength:"1" maxLength:"200"`
}

func keyOf(k policy.Key) Key {
	return Key{
		ID: k.ID, Kind: string(k.Kind), Name: k.Name, Env: k.Env, Foreign: k.Foreign,
		Tags: k.Tags, Plan: k.Plan, Group: k.Group, Status: string(k.Status),
		Override: overrideOf(k.Override), Allow: policydoc.PatternsOf(k.Allow),
		Expires: schema.Given(k.Expires), Banned: schema.Given(k.Banned), Grace: schema.Given(k.Grace),
		Version: k.Version, Created: schema.Given(k.Created), Updated: schema.Given(k.Updated),
	}
}

func overrideOf(o *policy.Override) *Override {
	if o == nil {
		return nil
	}
	return &Override{Limits: policydoc.LimitsOf(o.Limits), Mode: string(o.Mode),
		Until: schema.Given(o.Until), Reason: o.Reason}
}

// read reads the override, which stands at a place of the body.
func (o *Override) read(at string, details *rest.Details) *policy.Override {
	if o == nil {
		return nil
	}
	limits, unread := policydoc.ReadLimits(at+"limits", o.Limits)
	*details = append(*details, schema.InBody(unread, "")...)
	return &policy.Override{Limits: limits, Mode: policy.Mode(o.Mode), Until: schema.TimeOf(o.Until),
		Reason: strings.TrimSpace(o.Reason)}
}

type (
	// Path names a key.
	Path struct {
		ID string `path:"id" doc:"Id of the key, never its secret" example:"aBY2A8bWP166"`
	}
	keyOutput = rest.VersionedBody[Key]
	keysInput struct {
		Prefix string `query:"prefix" maxLength:"100" doc:"Only names that start so, whatever the case"`
		Plan   string `query:"plan" maxLength:"400" doc:"Only keys of the plan with this name"`
		Group  string `query:"group" maxLength:"64" doc:"Only keys of this group"`
		Tag    string `query:"tag" maxLength:"50" doc:"Only keys that have this tag"`
		State  string `query:"state" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable" doc:"Banned, blocked and near ones are in an order of their own"`
		Order  string `query:"order" enum:"name,busiest,blocked,used" default:"name" doc:"busiest and blocked: of the 64 callers with the most calls or denials this hour, on one page; used: keys that called within 24 hours, the last first"`
		rest.Paging
	}
	keysOutput struct {
		Body struct {
			Items []KeyNow `json:"items"`
			Next  string   `json:"next,omitempty" doc:"Where the list goes on; absent at its end. With a state or a tag a page may be short before it"`
		}
	}
	newKeyInput struct {
		Body struct {
			Name    string              `json:"name" minLength:"1" maxLength:"100"`
			Plan    string              `json:"plan" minLength:"1" maxLength:"100"`
			Env     string              `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" doc:"Part of the key's text; live when it is left out"`
			Tags    []string            `json:"tags,omitempty" maxItems:"10"`
			Group   string              `json:"group,omitempty" maxLength:"64" doc:"As in a key: letters, digits and . _ - : @"`
			Expires *time.Time          `json:"expires,omitempty"`
			Allow   []policydoc.Pattern `json:"allow,omitempty" maxItems:"20" doc:"As in a key"`
			Value   string              `json:"value,omitempty" doc:"The key's text, when another system made it; only with FOREIGN_KEYS. It is hashed, and stands in no answer"`
			Reason  string              `json:"reason,omitempty" maxLength:"200"`
		}
	}
	secretOutput struct {
		Location string `header:"Location"`
		ETag     string `header:"ETag"`
		Body     struct {
			Key    Key    `json:"key"`
			Secret string `json:"secret,omitempty" doc:"Stands in this answer and nowhere else; absent when the value was given"`
		}
	}
	patchKeyInput struct {
		Path
		rest.IfMatch
		Body struct {
			Name    *string              `json:"name,omitempty" minLength:"1" maxLength:"100"`
			Plan    *string              `json:"plan,omitempty" minLength:"1" maxLength:"100"`
			Tags    *[]string            `json:"tags,omitempty" maxItems:"10"`
			Group   *string              `json:"group,omitempty" maxLength:"64" doc:"Empty for none"`
			Allow   *[]policydoc.Pattern `json:"allow,omitempty" maxItems:"20" doc:"As in a key; [] for all routes"`
			Expires nullable[time.Time]  `json:"expires,omitempty" doc:"null for never"`
			Reason  string               `json:"reason,omitempty" maxLength:"200"`
		}
	}
	deleteInput struct {
		Path
		rest.ReasonQuery
	}
)

// nullable distinguishes a value that is left out from null.
type nullable[T any] struct {
	sent  bool
	value *T
}

// UnmarshalJSON notes that it was sent.
func (n *nullable[T]) UnmarshalJSON(text []byte) error {
	n.sent = true
	return json.Unmarshal(text, &n.value)
}

// Schema describes it as the value or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	s.Nullable = true
	return &s
}

func (ops operations) registerKeys(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys", ID: "list-keys", Role: auth.Viewer,
		Summary: "List keys, in the order of their names unless another is asked for",
		Details: "A key that is there all the while is listed exactly once, whatever is created or deleted " +
			"meanwhile.",
	}, ops.listKeys)
	rest.Register(group, rest.Operation{
		Pattern: "POST /keys", ID: "create-key", Role: auth.Editor, Status: http.StatusCreated,
		Summary: "Create a key",
		Details: "The secret stands in the answer and cannot be had again. A value that is a key's already " +
			"gets 409, with the key's address in Location.",
	}, ops.createKey)
	rest.Register(group, rest.Operation{
		Pattern: "GET /keys/{id}", ID: "get-key", Role: auth.Viewer,
		Summary: "Get a key and how its limits stand",
	}, ops.getKey)
	rest.Register(group, rest.Operation{
		Pattern: "PATCH /keys/{id}", ID: "edit-key", Role: auth.Editor,
		Summary: "Change name, plan, tags, group, routes or expiry",
		Details: "What is left out stays. Another plan acts on the next check and keeps the counts.",
	}, ops.patchKey)
	rest.Register(group, rest.Operation{
		Pattern: "DELETE /keys/{id}", ID: "delete-key", Role: auth.Editor, Status: http.StatusNoContent,
		Summary: "Delete a key and its counts for ever",
	}, ops.deleteKey)
}

// Get returns the key with this id. A whole secret is refused: it would stand in the
// address, where logs find it.
func Get(ctx context.Context, keys *app.Registry, id string) (policy.Key, error) {
	if _, err := apikey.Parse(id); err == nil {
		return policy.Key{}, rest.Invalid("path.id",
			"is a whole secret, which belongs in no address: the first 12 characters behind the last _ "+
				"are its id. Consider rotating it")
	}
	return keys.Get(ctx, id)
}

// filter reads which keys are meant.
func filter(set *policy.Set, prefix, plan, state, at string) (app.KeyFilter, error) {
	f := app.KeyFilter{Prefix: prefix, State: app.State(state)}
	if plan == "" {
		return f, nil
	}
	p, known := set.Plan(plan)
	if !known {
		return f, rest.Invalid(at, "no plan has this name")
	}
	f.Plan = p.Number
	return f, nil
}

func (ops operations) listKeys(ctx context.Context, in *keysInput) (*keysOutput, error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	f, err := filter(set, in.Prefix, in.Plan, in.State, "query.plan")
	if err != nil {
		return nil, err
	}
	f.Tag, f.Group = in.Tag, in.Group
	order := app.Order(in.Order)
	if in.Order == "name" {
		order = app.ByName
	}
	found, err := app.FindOrdered(ctx, ops.keys, set, f, order, in.After, in.Count)
	if err != nil {
		return nil, cursorProblem(err)
	}
	out := &keysOutput{}
	out.Body.Next = found.Next
	out.Body.Items, err = ops.keysNow(ctx, found.Subjects)
	return out, err
}

// cursorProblem says that after is no position, if that is what is wrong.
func cursorProblem(err error) error {
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return rest.Invalid("query.after", invalid.Fields[0].Message)
	}
	return err
}

// defaultEnv is the env of a new key that names none.
const defaultEnv = "live"

func (ops operations) createKey(ctx context.Context, in *newKeyInput) (*secretOutput, error) {
	b := in.Body
	if b.Env == "" {
		b.Env = defaultEnv
	}
	n := policy.NewKey{Name: b.Name, Env: b.Env, Plan: b.Plan, Tags: b.Tags, Group: b.Group,
		Expires: schema.TimeOf(b.Expires), Allow: policydoc.ReadPatterns(b.Allow), Value: b.Value}
	k, secret, err := ops.keys.Create(ctx, n, app.NewEdit(ctx, b.Reason))
	switch {
	case errors.Is(err, policy.ErrConflict) && b.Value != "":
		p := rest.NewProblem(http.StatusConflict,
			"The key "+k.ID+" has this value already. Nothing was changed.")
		p.GetHeaders().Set("Location", keyAddress(k))
		return nil, p
	case err != nil:
		return nil, err
	}
	return made(k, secret), nil
}

func keyAddress(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }

func made(k policy.Key, secret apikey.Secret) *secretOutput {
	out := &secretOutput{Location: keyAddress(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = keyOf(k)
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}

func (ops operations) getKey(ctx context.Context, in *Path) (*rest.VersionedBody[KeyNow], error) {
	k, err := Get(ctx, ops.keys, in.ID)
	if err != nil {
		return nil, err
	}
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	subjects, err := app.Subjects(ctx, ops.keys, set, []policy.Key{k})
	if err != nil {
		return nil, err
	}
	now, err := ops.keysNow(ctx, subjects)
	if err != nil {
		return nil, err
	}
	return rest.Versioned(k.Version, now[0]), nil
}

func (ops operations) patchKey(ctx context.Context, in *patchKeyInput) (*keyOutput, error) {
	if err := in.Missing(); err != nil {
		return nil, err
	}
	change := app.KeyChange{Do: app.Details, Details: in.apply}
	return ops.change(ctx, in.ID, in.IfMatch, change, in.Body.Reason)
}

func (in *patchKeyInput) apply(k *policy.Key) {
	b := in.Body
	if b.Name != nil {
		k.Name = *b.Name
	}
	if b.Plan != nil {
		k.Plan = *b.Plan
	}
	if b.Tags != nil {
		k.Tags = *b.Tags
	}
	if b.Group != nil {
		k.Group = *b.Group
	}
	if b.Allow != nil {
		k.Allow = policydoc.ReadPatterns(*b.Allow)
	}
	if b.Expires.sent {
		k.Expires = schema.TimeOf(b.Expires.value)
	}
}

func (ops operations) deleteKey(ctx context.Context, in *deleteInput) (*rest.None, error) {
	_, err := ops.change(ctx, in.ID, rest.IfMatch{}, app.KeyChange{Do: app.Delete}, in.Reason)
	return nil, err
}
