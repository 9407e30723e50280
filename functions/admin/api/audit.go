package api

import (
	"context"
	"errors"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

type (
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
	}, rest.List(a.Keys.Audits))
	rest.Register(group, rest.Operation{
		Pattern: "GET /audit/{number}", ID: "get-change", Role: auth.Viewer, Summary: "Get a change",
	}, a.getEntry)
	rest.Register(group, rest.Operation{
		Pattern: "GET /log", ID: "get-log", Role: auth.Viewer, Summary: "Get the state of the log of changes",
	}, a.getLog)
}

// entry returns a change, or a problem with status 404.
func (a *api) entry(ctx context.Context, in EntryPath) (registry.AuditEntry, error) {
	e, err := a.Keys.AuditEntry(ctx, in.Number)
	if errors.Is(err, policy.ErrNotFound) {
		return e, rest.NewProblem(http.StatusNotFound, "No such change.")
	}
	return e, err
}

func (a *api) getEntry(ctx context.Context, in *EntryPath) (*rest.Body[registry.AuditEntry], error) {
	e, err := a.entry(ctx, *in)
	if err != nil {
		return nil, err
	}
	return rest.Answer(e), nil
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
