package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/auth"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// Entry is a change of the log.
type Entry struct {
	Number   uint64       `json:"number" doc:"From 1, without gaps"`
	ID       string       `json:"id"`
	Time     time.Time    `json:"time"`
	By       schema.Actor `json:"by"`
	Action   string       `json:"action" example:"key.create"`
	Reason   string       `json:"reason,omitempty"`
	Items    int          `json:"items" doc:"Number of records that it changes"`
	Subjects []Subject    `json:"subjects" doc:"The records; in a list the first 10"`
	Void     uint64       `json:"void,omitempty" doc:"Number of the change that this one declares nothing"`
}

// Subject is a record that a change changes.
type Subject struct {
	Record string `json:"record" doc:"Id of a key or a group, token:ID, or policy"`
	Name   string `json:"name,omitempty"`
	Before any    `json:"before,omitempty" doc:"Record before the change; absent if it was created, and in a list without subject"`
	After  any    `json:"after,omitempty" doc:"Record after the change; absent if it was deleted, and in a list without subject"`
}

func entryOf(e registry.AuditEntry) Entry {
	if e.By.Kind == "" { // the log's begin
		e.By.Kind = "system"
	}
	out := Entry{e.Number, e.ID, e.Time, schema.Actor(e.By), e.Action, e.Reason, e.Items, []Subject{}, e.Void}
	for _, s := range e.Subjects {
		subject := Subject{Record: s.Record, Name: s.Name}
		if len(s.Before) > 0 {
			subject.Before = s.Before
		}
		if len(s.After) > 0 {
			subject.After = s.After
		}
		out.Subjects = append(out.Subjects, subject)
	}
	return out
}

type (
	auditInput struct {
		Subject string `query:"subject" maxLength:"80" doc:"Only changes of this record: a key, policy, or token:ID"`
		Action  string `query:"action" maxLength:"40" doc:"Only actions with this prefix" example:"key."`
		By      string `query:"by" maxLength:"400" doc:"Only changes by the actor with this name"`
		Name    string `query:"name" maxLength:"100" doc:"Only records that had this name at the time; case is ignored"`

		From time.Time `query:"from" doc:"Only changes at or after this time"`
		To   time.Time `query:"to" doc:"Only changes before this time"`
		rest.Paging
	}
	auditOutput struct {
		Body struct {
			Items []Entry `json:"items"`
			Next  string  `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page. Other pages can be short too"`
		}
	}
	// EntryPath is the path parameter of a change.
	EntryPath struct {
		Number uint64 `path:"number" doc:"Number of the change"`
	}
)

func (a *api) registerAudit() {
	group := a.Group("audit")
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit", ID: "list-audit", Role: auth.Viewer, Deadline: auth.Slow,
		Summary: "List all changes, newest first",
	}, a.listAudit)
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit/{number}", ID: "get-change", Role: auth.Viewer, Summary: "Get a change",
	}, a.getEntry)
	rest.Register(group, rest.Operation{
		Pattern: "GET /log", ID: "get-log", Role: auth.Viewer, Summary: "Get the state of the log of changes",
	}, a.getLog)
}

// maxStates bounds the states in a page of changes, in bytes. A Lambda function can answer
// 4.5 MB without compression.
const maxStates = 3 << 20

// bounded returns the first entries of a page, whose states have up to maxStates bytes.
func bounded(page registry.AuditPage) registry.AuditPage {
	size := 0
	for i, e := range page.Entries {
		for _, s := range e.Subjects {
			size += len(s.Before) + len(s.After)
		}
		if i > 0 && size > maxStates {
			return registry.AuditPage{Entries: page.Entries[:i], Next: page.Entries[i-1].Number}
		}
	}
	return page
}

func (a *api) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	q := registry.AuditQuery{Subject: in.Subject, Named: in.Name, Action: in.Action, By: in.By,
		Since: in.From, Until: in.To, Count: in.Count}
	if !in.To.IsZero() && in.To.Before(in.From) {
		return nil, rest.Invalid("query.to", "is before from")
	}
	if in.After != "" {
		var err error
		if q.Before, err = strconv.ParseUint(in.After, 10, 64); err != nil || q.Before == 0 {
			return nil, rest.Invalid("query.after", "must be the value of next from the previous page")
		}
	}
	page, err := a.Keys.Audit(ctx, q)
	if err != nil {
		return nil, err
	}
	page = bounded(page)
	out := &auditOutput{}
	out.Body.Items = make([]Entry, len(page.Entries))
	for i, e := range page.Entries {
		out.Body.Items[i] = entryOf(e)
	}
	if page.Next > 0 {
		out.Body.Next = strconv.FormatUint(page.Next, 10)
	}
	return out, nil
}

// entry returns a change, or a problem with status 404.
func (a *api) entry(ctx context.Context, in EntryPath) (registry.AuditEntry, error) {
	e, err := a.Keys.AuditEntry(ctx, in.Number)
	if errors.Is(err, policy.ErrNotFound) {
		return e, rest.NewProblem(http.StatusNotFound, "No such change.")
	}
	return e, err
}

func (a *api) getEntry(ctx context.Context, in *EntryPath) (*rest.Body[Entry], error) {
	e, err := a.entry(ctx, *in)
	if err != nil {
		return nil, err
	}
	return rest.Answer(entryOf(e)), nil
}

// Log is the state of the log of changes and of its view in Valkey.
type Log struct {
	Newest  uint64 `json:"newest" doc:"Number of the newest change"`
	Lowest  uint64 `json:"lowest" doc:"Last change that every part of Valkey has; 0 if one is lost"`
	Behind  int    `json:"behind" doc:"Number of parts of Valkey, of 256, that lack changes"`
	Away    int    `json:"away" doc:"Number of parts of Valkey that do not answer"`
	Marks   int    `json:"marks" doc:"Revocations and bans that act but are not stored yet"`
	Damaged uint64 `json:"damaged,omitempty" doc:"Number of a change that is missing or damaged"`
	Problem string `json:"problem,omitempty" enum:"store,ahead,damaged,stray" doc:"Why edits are refused: the store of the log is unavailable, Valkey holds changes that the log lacks, a change is damaged, or an object is not a change"`
	Object  string `json:"object,omitempty" doc:"Name of the object in the store that is not a change"`
}

func (a *api) getLog(ctx context.Context, _ *rest.None) (*rest.Body[Log], error) {
	s := a.Keys.LogStatus(ctx)
	out := Log{Newest: s.Newest, Lowest: s.Lowest, Behind: s.Behind, Away: s.Away, Marks: s.Marks,
		Damaged: s.Damaged}
	var stray *changes.StrayError
	switch {
	case s.Problem == nil:
	case errors.As(s.Problem, &stray):
		out.Problem, out.Object = "stray", stray.Name
	case errors.Is(s.Problem, changes.ErrAhead):
		out.Problem = "ahead"
	case s.Damaged > 0:
		out.Problem = "damaged"
	default:
		out.Problem = "store"
	}
	return rest.Answer(out), nil
}
