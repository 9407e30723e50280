// Package command owns how a change is made. A command is a struct: its tags say what it is
// called in JSON and in a form, its label, hint and bounds, and its method Do makes the
// change. From it come the operation of the API with its OpenAPI, the page with its form,
// decoding, the errors at fields, the version that it is based on, warnings to accept, the
// audit, the undo in the message, and the redirect.
//
// Package dashboard mounts the pages, package api the operations. Package command changes
// keys and policies through package app only.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Services are what commands need.
type Services struct {
	Keys    *app.Registry
	Records *records.Reader
	Tokens  *token.Store
	Changes *changes.Changes // the history for pages; nil for operations
	// Effects says what the use of a plan, or with 0 that of all callers, tells of an edit; nil
	// for operations.
	Effects func(ctx context.Context, before, after *policy.Set, plan int) ([]string, error)
}

// Command is a change that somebody asks for: the input of an operation, or what a form
// sends. It embeds a target, such as OnKey, which has all methods but Do.
type Command interface {
	// Load reads what the command changes.
	load(ctx context.Context, s *Services) error
	// Ready returns why the command cannot be made to what Load read; nil if it can.
	ready() error
	// Subject describes what Load read.
	subject() Subject
	base() *target
	// Do makes the change. Bad input is a *policy.InvalidError. If another change came
	// first, it is policy.ErrConflict, and Subject is what that change left.
	do(ctx context.Context, s *Services, e app.Edit) (Result, error)
}

// Methods that a command may have.
type (
	// filler sets the fields to what is saved, for a form that begins with it.
	filler interface {
		fill(ctx context.Context, s *Services) error
	}
	// chooser returns the options of a field.
	chooser interface {
		options(name string) []templates.Option
	}
	// leader returns sentences that stand above the form.
	leader interface {
		lead(ctx context.Context, s *Services) ([]string, error)
	}
	// warner returns what the author must accept before Do.
	warner interface {
		warnings(ctx context.Context, s *Services) ([]string, error)
	}
	// previewer returns what Do would change.
	previewer interface {
		preview(ctx context.Context, s *Services) (*templates.Preview, error)
	}
	// follower reports whether the change may be made although others came after the version
	// that its form shows.
	follower interface {
		follows(ctx context.Context, s *Services, version int64) (bool, error)
	}
	// hider reports whether the command lacks a field for this target.
	hider interface{ hides(name string) bool }
)

// target is the part of a command that says on which version it is based. self is the whole
// command, for the methods that every command with this target has.
type target struct {
	at   int64 // registry.AnyVersion for any
	self Command
}

func (t *target) base() *target { return t }

// creation is the target of a command that reads nothing first.
type creation struct{ target }

func (*creation) load(context.Context, *Services) error { return nil }

func (*creation) ready() error { return nil }

// prepared returns a command that knows itself.
func prepared(c any) Command {
	command := c.(Command) //nolint:forcetypeassert // commands() has only commands
	command.base().self = command
	return command
}

// Subject is what a command changes.
type Subject struct {
	Name    string // given by a user; may be empty
	Version int64  // 0 for something new
	Record  string // in the audit
	Saved   time.Time
	Path    string // of its page
	Trail   []templates.Choice
}

// Result is what a command did.
type Result struct {
	Done    string // message for the next page; empty for that of Spec
	Same    bool   // nothing changed
	Undo    string // the audit's action if the change can be undone
	Version int64  // that the change made
	Path    string // of the next page; empty for that of the subject
	Secret  string // to show once on the next page, by the name SecretOf
	// SecretOf is the name of the secret.
	SecretOf string
}

// Spec is what there is to say of a command beside its fields.
type Spec struct {
	Group     string // of operations
	ID        string // of the operation
	Operation string // its method and path; empty for none
	Summary   string
	Details   string
	Status    int  // of success; 0 for 200
	Versioned bool // the operation needs If-Match
	MaxBody   int64
	Deadline  time.Duration

	Form    string // path of the page; empty for none
	To      string // path that the form is sent to; empty for Form
	Heading string
	Lead    string
	Submit  string
	Done    string
	Danger  bool
	Preview bool // the form has a button that shows what would change
	Review  bool // the form is saved only after a preview
	Shows   bool // the form begins with a preview
}

// entry is a command with its two doors.
type entry struct {
	Spec
	fresh    func() Command
	register func(rest.Group, *Services)
}

// of describes a command whose operation answers with what answer returns.
func of[C, Out any](spec Spec, answer func(*C, Result) *Out) entry {
	return entry{spec, func() Command { return prepared(new(C)) }, func(g rest.Group, s *Services) {
		rest.Register(g, rest.Operation{Pattern: spec.Operation, ID: spec.ID, Role: auth.Editor,
			Summary: spec.Summary, Details: spec.Details, Status: spec.Status, MaxBody: spec.MaxBody,
			Deadline: spec.Deadline,
		}, func(ctx context.Context, in *C) (*Out, error) {
			result, err := operate(ctx, s, spec, prepared(in))
			if err != nil {
				return nil, err
			}
			return answer(in, result), nil
		})
	}}
}

// none answers with no body.
func none[C any](*C, Result) *rest.None { return nil }

// Refusal is why a command cannot be made, for both doors.
type Refusal struct { //nolint:errname // as page.Problem and rest.Problem
	Status          int
	Heading, Advice string
	Path            string // that a page links to, or the URL of a conflicting resource
}

// Error implements error.
func (r *Refusal) Error() string { return r.Heading + ". " + r.Advice }

// act checks the warnings of a loaded command and makes the change.
func act(ctx context.Context, s *Services, c Command, accepts app.Accepts) (Result, error) {
	if w, ok := c.(warner); ok {
		warnings, err := w.warnings(ctx, s)
		if err == nil && len(warnings) > 0 && !accepts(warnings) {
			err = &app.UnconfirmedError{Warnings: warnings}
		}
		if err != nil {
			return Result{}, inFields(c, err)
		}
	}
	e := app.NewEdit(ctx, reasonOf(c))
	if r, ok := c.(repeatable); ok {
		e.Repeat = r.repeat(ctx, c)
	}
	result, err := c.do(ctx, s, e)
	return result, inFields(c, err)
}

// operate answers an operation.
func operate(ctx context.Context, s *Services, spec Spec, c Command) (Result, error) {
	match, versioned := c.(matcher)
	if spec.Versioned {
		if err := match.Missing(); err != nil {
			return Result{}, err
		}
	}
	err := c.load(ctx, s)
	if err == nil {
		err = c.ready()
	}
	if err != nil {
		return Result{}, operationError(c, err)
	}
	c.base().at = registry.AnyVersion
	given := c.subject().Version
	if versioned {
		version, err := match.Version(given)
		if err := followed(ctx, s, c, err); err != nil {
			return Result{}, err
		}
		if !match.Any() {
			c.base().at = max(version, given)
		}
	}
	accepts := func([]string) bool { return false }
	if a, ok := c.(acceptor); ok {
		accepts = a.Accepts
	}
	result, err := act(ctx, s, c, accepts)
	if errors.Is(err, policy.ErrConflict) && versioned {
		return result, rest.Stale(c.subject().Version, &given)
	}
	return result, operationError(c, err)
}

// followed takes away the error of a stale version if nobody changed since what the command
// changes.
func followed(ctx context.Context, s *Services, c Command, err error) error {
	stale, _ := errors.AsType[*rest.Problem](err)
	f, ok := c.(follower)
	if stale == nil || stale.Given == nil || !ok {
		return err
	}
	follows, failed := f.follows(ctx, s, *stale.Given)
	if failed != nil {
		return failed
	}
	if follows {
		return nil
	}
	return err
}

// operationError returns the error that the API answers.
func operationError(c Command, err error) error {
	if invalid, ok := errors.AsType[*policy.InvalidError](err); ok {
		details := schema.InBody(invalid.Fields, "")
		for i := range details {
			for _, f := range fieldsOf(c) {
				if f.in == "query" && details[i].Location == "body."+f.name {
					details[i].Location = "query." + f.name
				}
			}
		}
		return rest.Unprocessable(details...)
	}
	refusal, refused := errors.AsType[*Refusal](err)
	if !refused {
		return err
	}
	p := rest.NewProblem(refusal.Status, refusal.Error())
	if refusal.Path != "" {
		p.GetHeaders().Set("Location", rest.Prefix+refusal.Path)
	}
	return p
}

// What the header and the query of an operation say.
type (
	matcher interface {
		Missing() error
		Any() bool
		Version(current int64) (int64, error)
	}
	acceptor   interface{ Accepts(warnings []string) bool }
	repeatable interface {
		repeat(ctx context.Context, c Command) *app.Repeat
	}
)

// Repeatable is the header field by which a caller may repeat a request that creates
// something.
type Repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[ -~]+$" example:"5f6c1f0e-9b7a-4c39-8f0e-0d6f1c1b8a52" doc:"A random text, such as a UUID, that the request keeps when it is repeated: the repeat gets the same result, and changes nothing"`
}

// repeat returns the request with its body; nil without the header field.
func (r Repeatable) repeat(ctx context.Context, c Command) *app.Repeat {
	if r.IdempotencyKey == "" {
		return nil
	}
	body := reflect.ValueOf(c).Elem().FieldByName("Body")
	text, err := json.Marshal(body.Interface())
	if err != nil {
		panic(err) // it was JSON
	}
	return &app.Repeat{By: auth.From(ctx).ID, Key: r.IdempotencyKey, Body: text}
}
