package command

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/dashboard/auditlog"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// CreateToken creates a machine token. A token cannot, so that a leaked one makes no other.
type CreateToken struct {
	creation
	Body struct {
		Name    string    `json:"name" minLength:"1" maxLength:"64" label:"Name" sample:"Program that uses it"`
		Scope   string    `json:"scope" enum:"read,write,settle" label:"Scope" doc:"settle only settles calls; write includes read and settle"`
		Expires time.Time `json:"expires" label:"Expires" never:"Choose a duration" begins:"90d" missing:"Choose how long the token lasts." doc:"At most 366 days from now"`
	}

	token  token.Token
	secret apikey.Secret
}

// Scopes are the scopes of tokens in words.
var Scopes = []templates.Option{
	{Value: string(token.Read), Text: "read"},
	{Value: string(token.Settle), Text: "settle costs only"},
	{Value: string(token.Write), Text: "read and write"},
}

// TokenSecret begins the name by which a page finds the secret of a new token.
const TokenSecret = "token:"

func (*CreateToken) subject() Subject {
	return Subject{Path: "/settings", Trail: []templates.Choice{{Text: "Settings", Address: "/settings"}}}
}

func (*CreateToken) options(name string) []templates.Option {
	if name == "scope" {
		return Scopes
	}
	return nil
}

func (c *CreateToken) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	n := token.New{Name: c.Body.Name, Scope: token.Scope(c.Body.Scope), Expires: c.Body.Expires, By: e.By}
	var err error
	c.token, c.secret, err = s.Tokens.Create(ctx, n)
	err = app.NotedSecret(ctx, err)
	if invalid, ok := errors.AsType[*token.InvalidError](err); ok {
		return Result{}, fieldError(invalid.Field, invalid.Message)
	}
	if errors.Is(err, token.ErrTooMany) {
		return Result{}, &Refusal{
			Status:  http.StatusConflict,
			Heading: "The number of tokens is at its maximum",
			Advice:  "Revoke one first.",
		}
	}
	return Result{Secret: c.secret.Reveal(), SecretOf: TokenSecret + c.token.ID,
		Path: "/settings?made=" + c.token.ID}, err
}

// NewToken is a token with its secret.
type NewToken struct {
	Location string `header:"Location"`
	Body     struct {
		Token  token.Token `json:"token"`
		Secret string      `json:"secret" doc:"Only in this response"`
	}
}

// RevokeToken makes requests with a machine token get 401, those of the token itself too.
type RevokeToken struct {
	creation
	ID string `path:"id" maxLength:"64"`
}

func (*RevokeToken) subject() Subject { return Subject{Path: "/settings"} }

func (c *RevokeToken) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	err := app.Noted(ctx, s.Tokens.Revoke(ctx, c.ID, e.By))
	if errors.Is(err, token.ErrNotFound) {
		return Result{}, &Refusal{Status: http.StatusNotFound, Heading: "No such token",
			Advice: "It may have been revoked already.", Path: "/settings"}
	}
	return Result{}, err
}

// Undo takes back what a change did.
type Undo struct {
	target
	rest.AcceptQuery
	Number uint64 `path:"number" doc:"Number of the change"`
	Body   struct{ Why }

	entry changes.Entry
}

func (c *Undo) load(ctx context.Context, s *Services) error {
	found, err := s.Keys.AuditEntry(ctx, c.Number)
	if errors.Is(err, policy.ErrNotFound) || err == nil && c.Number == 0 {
		return &Refusal{Status: http.StatusNotFound, Heading: "No such change",
			Advice: "The number may be mistyped."}
	}
	c.entry = changes.Entry{AuditEntry: found, Changes: changes.OfEntry(found)}
	return err
}

func (c *Undo) ready() error {
	if reason := app.Irreversible(c.entry.Action); reason != "" {
		return noUndo(reason)
	}
	return nil
}

func noUndo(why string) error {
	return &Refusal{
		Status:  http.StatusConflict,
		Heading: "Cannot undo this change",
		Advice:  why,
		Path:    "/audit",
	}
}

func (*Undo) subject() Subject {
	return Subject{Path: "/audit", Trail: []templates.Choice{{Text: "Audit", Address: "/audit"}}}
}

func (c *Undo) heading() string { return "Undo “" + auditlog.Words(c.entry) + "”" }

// reason is the reason if the button of a message sends none.
func (c *Undo) reason() string {
	return page.Clip("undo of “"+auditlog.Words(c.entry)+"”", policy.MaxReasonLen-1)
}

func (c *Undo) lead(context.Context, *Services) ([]string, error) {
	text := "Takes back this change of " + page.Instant(c.entry.Time).Text +
		" with a new one. What was changed since stays, and what was revoked stays revoked."
	if subjects, more := auditlog.SubjectsOf(c.entry.AuditEntry); c.entry.Items > len(c.entry.Changes) &&
		c.entry.Items > 1 {
		text += " The first of " + page.Number(int64(len(subjects))+more) + " records are shown."
	}
	return []string{text}, nil
}

func (c *Undo) preview(context.Context, *Services) (*templates.Preview, error) {
	p := &templates.Preview{}
	for _, each := range c.entry.Changes {
		p.Changes = append(p.Changes,
			templates.Change{What: each.What, Of: each.Of, Before: each.After, After: each.Before})
	}
	return p, nil
}

func (c *Undo) warnings(ctx context.Context, s *Services) ([]string, error) {
	return s.Keys.UndoWarnings(ctx, c.entry.AuditEntry)
}

func (c *Undo) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	err := s.Keys.Undo(ctx, c.entry.AuditEntry, e)
	irreversible, never := errors.AsType[app.IrreversibleError](err)
	invalid, bad := errors.AsType[*policy.InvalidError](err)
	switch {
	case never:
		return Result{}, noUndo(string(irreversible))
	case bad:
		return Result{}, noUndo("The earlier state is no longer valid: " + form.Invalid(nil, invalid.Fields))
	case errors.Is(err, registry.ErrNoUndo):
		return Result{}, noUndo("Nothing of it can be taken back: it was changed since.")
	case errors.Is(err, policy.ErrConflict):
		return Result{}, noUndo("A part of it was changed since. Edit the policies instead.")
	case err != nil:
		return Result{}, err
	}
	result := Result{Done: "Change of " + auditlog.SubjectOf(c.entry) + " undone."}
	if c.entry.Action == registry.KeyOverride || c.entry.Action == registry.GroupOverride {
		result.Done = strings.Replace(result.Done, "Change", "Override", 1)
	}
	subjects, _ := auditlog.SubjectsOf(c.entry.AuditEntry)
	if len(subjects) != 1 {
		return result, nil
	}
	result.Undo, result.Path = registry.KeyRevert, "/audit"
	switch record := subjects[0].Record; {
	case record == app.PolicyRecord:
		result.Path = "/policies"
		if set, err := s.Keys.Set(ctx); err == nil {
			result.Version = set.Version
		}
	case app.IsID(record):
		if k, err := s.Keys.Get(ctx, record); err == nil {
			result.Path, result.Version = "/keys/"+url.PathEscape(record), k.Version
		}
	}
	return result, nil
}
