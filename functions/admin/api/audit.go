package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// Entry is one change in the audit log.
type Entry struct {
	ID       string       `json:"id"`
	Time     time.Time    `json:"time"`
	By       schema.Actor `json:"by"`
	Action   string       `json:"action" example:"key.create"`
	Subject  string       `json:"subject" doc:"Id of a key or a token, or policy, or login"`
	Name     string       `json:"name,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Job      string       `json:"job,omitempty" doc:"Id of the bulk job that made the change"`
	Version  int64        `json:"version" doc:"Version of the subject after the change"`
	Before   any          `json:"before,omitempty" doc:"Subject before the change; absent if it was created"`
	After    any          `json:"after,omitempty" doc:"Subject after the change; absent if it was deleted"`
	Previous string       `json:"previous" doc:"Hash of the previous entry in the chain"`
	Hash     string       `json:"hash"`
}

// Cut is an audit chain whose newest entries or head were removed or altered.
type Cut struct {
	Chain   int    `json:"chain" doc:"Number of the chain, 0 to 255"`
	Last    string `json:"last,omitempty" doc:"Id of the newest entry; absent if there is none"`
	Missing int64  `json:"missing" doc:"Number of missing entries after last; 0 if unknown"`
}

func entryOf(e audit.Entry) Entry {
	return Entry{
		e.ID, e.Time, schema.Actor(e.By), e.Action, e.Subject, e.Name, e.Reason, e.Job, e.Version,
		rawOrNil(e.Before), rawOrNil(e.After), e.Previous, e.Hash,
	}
}

func rawOrNil(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return text
}

type (
	auditInput struct {
		Subject string `query:"subject" maxLength:"64" doc:"Only entries of this key, token or policy"`
		Action  string `query:"action" maxLength:"40" doc:"Only actions with this prefix" example:"key."`
		By      string `query:"by" maxLength:"400" doc:"Only changes by the actor with this name"`
		Name    string `query:"name" maxLength:"100" doc:"Only keys that had this name at the time; case is ignored"`
		Job     string `query:"job" maxLength:"64" doc:"Only changes of this bulk job"`

		From time.Time `query:"from" doc:"Only entries at or after this time"`
		To   time.Time `query:"to" doc:"Only entries before this time"`
		rest.Paging
	}
	auditOutput struct {
		Body struct {
			Items []Entry `json:"items"`
			Next  string  `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page. Other pages can be short too"`
		}
	}
	// EntryPath is the path parameter of an entry.
	EntryPath struct {
		Entry string `path:"entry" doc:"Id of the entry" maxLength:"100"`
	}
	verifyOutput struct {
		Body struct {
			Entries int64    `json:"entries" doc:"Number of entries checked"`
			Good    bool     `json:"good" doc:"All entries are present, unaltered and in order"`
			Broken  []string `json:"broken" doc:"Ids of entries that were altered, or that follow an altered or removed one; at most 100"`
			Cuts    []Cut    `json:"cuts" doc:"Chains whose newest entries or head were removed or altered"`
			Unread  []int    `json:"unread" doc:"Chains that were not checked because the journal did not return their oldest entries"`
		}
	}
	revertInput struct {
		EntryPath
		rest.IfMatch
		rest.AcceptQuery
		rest.RequiredReason
	}
	revertOutput struct {
		ETag string `header:"ETag"`
		Body struct {
			Subject string `json:"subject"`
			Version int64  `json:"version" doc:"Version of the subject after the change"`
		}
	}
)

func (a *api) registerAudit() {
	group := a.Group("audit")
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit", ID: "list-audit", Role: auth.Viewer, Summary: "List all changes, newest first",
	}, a.listAudit)
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit/verify", ID: "verify-audit", Role: auth.Viewer,
		Deadline: auth.Long, Summary: "Verify the hash of every entry and the end of every chain",
	}, a.verifyAudit)
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit/{entry}", ID: "get-audit-entry", Role: auth.Viewer, Summary: "Get an entry",
	}, a.getEntry)
	rest.Register(group, rest.Operation{
		Pattern: "POST /audit/{entry}/revert", ID: "revert-change", Role: auth.Editor,
		Deadline: auth.Slow, Summary: "Restore the state before an entry",
		Details: "Makes a new change, which also undoes later changes of the same key or of the policies. " +
			"Needs If-Match with the subject's version.",
	}, a.revert)
}

// maxStates bounds the states in a page of entries, in bytes. A Lambda function can answer
// 4.5 MB without compression.
const maxStates = 3 << 20

func (a *api) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	q := audit.Query{Subject: in.Subject, Named: in.Name, Action: in.Action, By: in.By, Job: in.Job,
		Since: in.From, After: in.After, Count: in.Count, MaxBytes: maxStates, Older: true}
	if !in.To.IsZero() && in.To.Before(in.From) {
		return nil, rest.Invalid("query.to", "is before from")
	}
	if q.After == "" && !in.To.IsZero() {
		q.After = audit.Before(in.To)
	}
	page, err := a.Keys.Audit().List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &auditOutput{}
	out.Body.Items, out.Body.Next = make([]Entry, len(page.Entries)), page.Next
	for i, e := range page.Entries {
		out.Body.Items[i] = entryOf(e)
	}
	return out, nil
}

func (a *api) verifyAudit(ctx context.Context, _ *rest.None) (*verifyOutput, error) {
	v, err := a.Keys.Audit().Verify(ctx)
	if err != nil {
		return nil, err
	}
	out := &verifyOutput{}
	out.Body.Entries, out.Body.Good = v.Entries, v.Good()
	out.Body.Broken, out.Body.Cuts, out.Body.Unread = append([]string{}, v.Broken...), []Cut{}, []int{}
	for _, b := range v.Unread {
		out.Body.Unread = append(out.Body.Unread, int(b))
	}
	for _, c := range v.Cut {
		out.Body.Cuts = append(out.Body.Cuts, Cut{int(c.Bucket), c.Last, c.Missing})
	}
	return out, nil
}

func (a *api) entry(ctx context.Context, id string) (audit.Entry, error) {
	e, found, err := a.Keys.Audit().Get(ctx, id)
	if errors.Is(err, audit.ErrPosition) || err == nil && !found {
		return e, rest.NewProblem(http.StatusNotFound, "No such audit entry.")
	}
	return e, err
}

func (a *api) getEntry(ctx context.Context, in *EntryPath) (*rest.Body[Entry], error) {
	e, err := a.entry(ctx, in.Entry)
	if err != nil {
		return nil, err
	}
	return rest.Answer(entryOf(e)), nil
}

func (a *api) revert(ctx context.Context, in *revertInput) (*revertOutput, error) {
	if err := in.Missing(); err != nil {
		return nil, err
	}
	e, err := a.entry(ctx, in.Entry)
	if err != nil {
		return nil, err
	}
	r, err := app.ReversalOf(ctx, a.Keys, e)
	if reason, ok := errors.AsType[app.IrreversibleError](err); ok {
		return nil, rest.NewProblem(http.StatusConflict, "Cannot revert this change. "+string(reason))
	}
	if err != nil {
		return nil, err
	}
	version, err := in.Version(r.Version)
	if err != nil {
		return nil, err
	}
	saved, err := r.Apply(ctx, version, app.NewEdit(ctx, in.Body.Reason), in.Accepts)
	if err != nil {
		return nil, revertProblem(err, saved, version)
	}
	out := &revertOutput{ETag: rest.ETag(saved)}
	out.Body.Subject, out.Body.Version = e.Subject, saved
	return out, nil
}

// revertProblem maps an error of Reversal.Apply. current is the subject's version, and
// version the one that the caller sent.
func revertProblem(err error, current, version int64) error {
	var invalid *policy.InvalidError
	switch {
	case errors.Is(err, policy.ErrConflict):
		return rest.Stale(current, &version)
	case errors.As(err, &invalid):
		p := rest.NewProblem(http.StatusConflict,
			"Cannot revert this change. The earlier state is no longer valid: see errors.")
		for _, f := range invalid.Fields {
			p.Errors = append(p.Errors, rest.Detail{Location: f.Field, Message: rest.Clip(f.Message)})
		}
		return p
	}
	return err
}
