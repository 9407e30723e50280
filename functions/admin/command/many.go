package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// onKey is a command on a key that can be made to many.
type onKey interface {
	Command
	keyChange
	one() *OnKey
}

func (c *OnKey) one() *OnKey { return c }

// bulk is a command that can be made to many keys.
type bulk struct {
	name     string
	title    string // before the number of keys
	sets     string // after it, before what the command sets; empty for nothing
	danger   bool   // the author must confirm the number of keys of a filter
	fresh    func() onKey
	register func(rest.Group, *Services)
}

func many[C any](name, title, sets string, danger bool) bulk {
	b := bulk{name: name, title: title, sets: sets, danger: danger}
	b.fresh = func() onKey { return prepared(new(C)).(onKey) } //nolint:forcetypeassert // bulks has only these
	b.register = func(g rest.Group, s *Services) {
		rest.Register(g, rest.Operation{Pattern: "POST /bulk/" + name, ID: name + "-keys",
			Role:     auth.Editor,
			Deadline: auth.Long, Summary: title + " up to 1,000 keys of a selection",
			Details: "Makes one change of the audit, which can be undone. Repeat the request with " +
				"after set to next until next is absent. A repeated request changes no key twice.",
		}, func(ctx context.Context, in *ManyKeys[C]) (*ManyChanged, error) {
			return in.operate(ctx, s, b)
		})
	}
	return b
}

// bulks are the commands for many keys, in the order in which a page offers them.
var bulks = []bulk{
	many[MovePlan]("plan", "Change plan of ", " to ", false),
	many[Override]("override", "Override limits of ", "", false),
	many[Ban]("ban", "Ban ", " until ", true),
	many[Revoke]("revoke", "Revoke ", "", true),
	many[Tag]("tag", "Add tags to ", ": ", false),
	many[Untag]("untag", "Remove tags from ", ": ", false),
	many[SetGroup]("group", "Change group of ", " to ", false),
	many[SetExpiry]("expiry", "Change expiry of ", " to ", false),
	many[EndOverride]("end", "End overrides of ", "", false),
	many[Unban]("unban", "Unban ", "", false),
	many[Reset]("reset", "Reset counts of ", "", true),
}

// Many makes a command to many keys, up to registry.MaxKeys at a time.
type Many struct {
	target
	bulk
	change onKey

	set     *policy.Set
	ids     []string
	filter  *app.KeyFilter // in place of ids
	confirm *int64         // number of keys that the author confirms; nil for none
	total   int64
	after   string // where the step begins
	step    app.Step
	page    selection // on a page
}

func (c *Many) load(ctx context.Context, s *Services) (err error) {
	if c.set, err = s.Keys.Set(ctx); err != nil {
		return err
	}
	if err := c.page.read(c); err != nil {
		return err
	}
	if c.change.one().set = c.set; c.after != "" {
		return nil
	}
	c.total, err = s.Keys.CountMatching(ctx, c.set, c.ids, c.filter)
	if errors.Is(err, app.ErrUncounted) {
		return &Refusal{Status: http.StatusUnprocessableEntity, Heading: "Too many keys to count",
			Advice: "Narrow the filter, for example by the start of the name."}
	}
	return err
}

func (*Many) ready() error { return nil }

// inner is the command whose fields the form has.
func (c *Many) inner() Command { return c.change }

// heading is the command and the number of keys in words.
func (c *Many) heading() string { return c.title + app.KeyCount(c.total) }

// whole is the heading with what the command sets.
func (c *Many) whole() string {
	if c.sets == "" {
		return c.heading()
	}
	for _, f := range fieldsOf(c.change) {
		if f.name == "reason" {
			continue
		}
		switch to := f.target().(type) {
		case *time.Time:
			return c.heading() + c.sets + to.UTC().Format(policydoc.ToMinute)
		case **time.Time:
			if *to == nil {
				return c.heading() + c.sets + never
			}
			return c.heading() + c.sets + (*to).UTC().Format(policydoc.ToMinute)
		case *[]string:
			return c.heading() + c.sets + strings.Join(*to, ", ")
		case *string:
			if *to == "" {
				return c.heading() + c.sets + "none"
			}
			return c.heading() + c.sets + *to
		}
	}
	return c.heading()
}

func (c *Many) warnings(ctx context.Context, s *Services) ([]string, error) {
	if w, ok := c.change.(warner); ok && c.after == "" {
		return w.warnings(ctx, s)
	}
	return nil, nil
}

// bulkChange returns the prepared change.
func (c *Many) bulkChange() (app.Bulk, error) {
	change, err := c.change.change(c.set)
	return app.Bulk{Change: change, IDs: c.ids, Filter: c.filter, Total: c.total}, err
}

// do implements Command: it makes one step.
func (c *Many) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	b, err := c.bulkChange()
	if err != nil {
		return Result{}, err
	}
	if strings.TrimSpace(e.Reason) == "" {
		return Result{}, fieldError("reason", "is required for a change of many keys: 1 to 200 characters")
	}
	if c.after == "" {
		if err := c.checkCount(); err != nil {
			return Result{}, err
		}
		if err := s.Keys.CheckBulk(ctx, c.set, b); err != nil {
			return Result{}, err
		}
	}
	c.step, err = s.Keys.StepBulk(ctx, c.set, b, c.after, e)
	return Result{}, err
}

// checkCount refuses a number of keys that is not the one that match now. A change that
// harms all keys of a filter needs it.
func (c *Many) checkCount() error {
	if c.confirm == nil && (!c.danger || c.filter == nil) || c.confirm != nil && *c.confirm == c.total {
		return nil
	}
	return fieldError("confirm", fmt.Sprintf("must be %d, the number of keys that match", c.total))
}

// ManyKeys is a command to the keys that ids or a filter selects.
type ManyKeys[C any] struct {
	rest.AcceptQuery
	Body struct {
		IDs     []string    `json:"ids,omitempty" maxItems:"100" doc:"Ids of the keys to change"`
		Filter  *KeysFilter `json:"filter,omitempty" doc:"In place of ids: change all keys that match; {} matches every key"`
		Confirm *int64      `json:"confirm,omitempty" minimum:"0" doc:"Number of keys that match. Needed in the first request of revoke, reset or ban with a filter"`
		After   string      `json:"after,omitempty" maxLength:"1000" doc:"The value of next in the previous response"`
		Change  bodyOf[C]   `json:"change" doc:"What the operation on one key takes; the reason is required"`
	}
}

// KeysFilter selects the keys of a command.
type KeysFilter struct {
	Prefix string `json:"prefix,omitempty" maxLength:"100"`
	Plan   string `json:"plan,omitempty" maxLength:"100" doc:"Name of a plan"`
	Group  string `json:"group,omitempty" maxLength:"64"`
	Tag    string `json:"tag,omitempty" maxLength:"50"`
	State  string `json:"state,omitempty" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable"`
}

// ManyChanged is what a request changed.
type ManyChanged struct {
	Body struct {
		Change   uint64         `json:"change,omitempty" doc:"Number of the change that this request made; absent if no key changed"`
		Done     int64          `json:"done" doc:"Keys changed by this request"`
		Skipped  int64          `json:"skipped" doc:"Keys that needed no change or are not active"`
		Failed   int            `json:"failed" doc:"Keys that could not be changed"`
		Failures []UnchangedKey `json:"failures"`
		More     bool           `json:"more,omitempty" doc:"More keys match than at the begin; the others were not changed"`
		Next     string         `json:"next,omitempty" doc:"Repeat the request with after set to this value; absent after the last step"`
	}
}

// UnchangedKey is a key that could not be changed, and the reason.
type UnchangedKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why" example:"tags too many: at most 10"`
}

// bodyOf is the body of a command, in a request to many keys.
type bodyOf[C any] struct{ of onKey }

// Schema implements huma.SchemaProvider.
func (bodyOf[C]) Schema(r huma.Registry) *huma.Schema {
	t := reflect.TypeFor[C]()
	body, found := t.FieldByName("Body")
	if !found {
		return r.Schema(reflect.TypeFor[OptionalReason](), true, "")
	}
	return r.Schema(body.Type, true, t.Name()+"Body")
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *bodyOf[C]) UnmarshalJSON(text []byte) error {
	b.of = prepared(new(C)).(onKey) //nolint:forcetypeassert // bulks has only these
	return readBody(b.of, text)
}

// readBody sets the fields of a command to those of a JSON object.
func readBody(c onKey, text []byte) error {
	if body := reflect.ValueOf(c).Elem().FieldByName("Body"); body.IsValid() {
		return json.Unmarshal(text, body.Addr().Interface())
	}
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	for _, f := range fieldsOf(c) {
		if value, sent := values[f.name]; sent {
			if err := json.Unmarshal(value, f.value.Addr().Interface()); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeBody is the inverse of readBody.
func writeBody(c onKey) (json.RawMessage, error) {
	values := map[string]any{}
	for _, f := range fieldsOf(c) {
		values[f.name] = f.value.Interface()
	}
	return json.Marshal(values)
}

func (in *ManyKeys[C]) operate(ctx context.Context, s *Services, b bulk) (*ManyChanged, error) {
	body := in.Body
	c := &Many{bulk: b, change: body.Change.of, ids: body.IDs, confirm: body.Confirm, after: body.After}
	if (len(body.IDs) == 0) == (body.Filter == nil) {
		return nil, rest.Invalid("body.ids", "or filter is required, but not both")
	}
	if f := body.Filter; f != nil {
		c.filter = &app.KeyFilter{Prefix: f.Prefix, Tag: f.Tag, Group: f.Group, State: app.State(f.State)}
		if f.Plan != "" {
			set, err := s.Keys.Set(ctx)
			if err != nil {
				return nil, err
			}
			p, known := set.Plan(f.Plan)
			if c.filter.Plan = p.Number; !known {
				return nil, rest.Invalid("body.filter.plan", "no plan has this name")
			}
		}
	}
	if body.After != "" {
		number, after, _ := strings.Cut(body.After, " ")
		var err error
		if c.total, err = strconv.ParseInt(number, 10, 64); err != nil || after == "" {
			return nil, rest.Invalid("body.after", "must be the value of next from the previous request")
		}
		c.after = after
	}
	if err := c.load(ctx, s); err != nil {
		return nil, operationError(c, err)
	}
	if _, err := act(ctx, s, prepared(c), in.Accepts); err != nil {
		return nil, operationError(c, inChange(err))
	}
	out := &ManyChanged{}
	o := &out.Body
	o.Change, o.Done, o.Skipped, o.More = c.step.Change, c.step.Done, c.step.Skipped, c.step.More
	o.Failed, o.Failures = len(c.step.Failures), []UnchangedKey{}
	for _, f := range c.step.Failures {
		o.Failures = append(o.Failures, UnchangedKey{f.ID, f.Name, app.FailureText(f.Why)})
	}
	if c.step.Next != "" {
		o.Next = strconv.FormatInt(c.total, 10) + " " + c.step.Next
	}
	return out, nil
}

// inChange names invalid fields of the command as those of the body of many keys.
func inChange(err error) error {
	invalid, ok := errors.AsType[*policy.InvalidError](err)
	if !ok {
		return err
	}
	fields := slices.Clone(invalid.Fields)
	for i, f := range fields {
		if f.Field != "confirm" {
			fields[i].Field = "change." + f.Field
		}
	}
	return policy.Invalid(fields)
}
