package api

import (
	"context"
	"errors"
	"net/http"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/journal"
)

// Journal is the state of the journal: changes that it lacks, and changes that Valkey
// lost.
type Journal struct {
	Unsafe      int    `json:"unsafe" doc:"Changes that Valkey has and the journal lacks"`
	Behind      int    `json:"behind" doc:"Number of parts of Valkey, of 256, that lost changes"`
	Unavailable bool   `json:"away" doc:"The journal is unavailable"`
	Damaged     string `json:"damaged,omitempty" doc:"Name of an object in the journal that is no entry; changes wait until it is removed"`
}

// Restored is the result of a restore.
type Restored struct {
	Parts   int    `json:"parts" doc:"Number of restored parts, of 256"`
	Entries uint64 `json:"entries" doc:"Number of restored audit entries"`
	Left    int    `json:"left" doc:"Number of parts still to restore: repeat the request until it is 0"`
}

func (a *api) registerJournal() {
	group := a.Group("journal")
	rest.Register(group, rest.Operation{
		Pattern: "GET /journal", ID: "get-journal", Role: auth.Viewer,
		Summary: "Get the changes that the journal or Valkey lacks",
	}, a.getJournal)
	rest.Register(group, rest.Operation{
		Pattern: "POST /journal/restore", ID: "restore", Role: auth.Editor,
		Deadline: auth.Long, Summary: "Restore the changes that Valkey lost",
	}, a.restore)
}

var errNoJournal = rest.NewProblem(http.StatusNotFound, "There is no journal: JOURNAL is not set.")

func (a *api) getJournal(ctx context.Context, _ *rest.None) (*rest.Body[Journal], error) {
	if a.Journal == nil {
		return nil, errNoJournal
	}
	return rest.Answer(Journal(a.Journal.Status(ctx))), nil
}

func (a *api) restore(ctx context.Context, _ *rest.None) (*rest.Body[Restored], error) {
	if a.Journal == nil {
		return nil, errNoJournal
	}
	s, err := app.RestoreLost(ctx, a.Journal, a.Keys, app.NewEdit(ctx, ""))
	switch {
	case errors.Is(err, journal.ErrNotRestored) && s.Left == 0:
		return nil, rest.NewProblem(http.StatusConflict,
			"Some parts of Valkey have changes that the journal lacks. They were not restored. Run "+
				"scripts/restore -dry-run to see which they are and what to do.")
	case err != nil && !errors.Is(err, journal.ErrNotRestored):
		return nil, err
	}
	return rest.Answer(Restored{s.Written, s.Lost, s.Left}), nil
}
