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

// Journal says what is not safe yet and what Valkey lost.
type Journal struct {
	Unsafe int  `json:"unsafe" doc:"Changes that are made and not in the journal yet"`
	Behind int  `json:"behind" doc:"Of 256 parts of Valkey, those that lost changes"`
	Away   bool `json:"away" doc:"The journal does not answer"`
}

// Restored says what a restore did.
type Restored struct {
	Parts   int    `json:"parts" doc:"That were restored, of 256"`
	Entries uint64 `json:"entries" doc:"Of the audit, that Valkey lacked"`
	Left    int    `json:"left" doc:"Parts that are left: send it again until there are none"`
}

type (
	journalOutput  struct{ Body Journal }
	restoredOutput struct{ Body Restored }
)

func (a *api) registerJournal() {
	const group = "journal"
	register(a, operation{
		pattern: "GET /journal", id: "get-journal", summary: "What is not safe yet, and what Valkey lost",
		role: auth.Viewer, group: group,
	}, a.getJournal)
	register(a, operation{
		pattern: "POST /journal/restore", id: "restore", summary: "Restore what Valkey lost",
		role: auth.Editor, group: group,
	}, a.restore)
}

var errNoJournal = rest.NewProblem(http.StatusNotFound, "There is no journal: JOURNAL is not set.")

func (a *api) getJournal(ctx context.Context, _ *none) (*journalOutput, error) {
	if a.Journal == nil {
		return nil, errNoJournal
	}
	return &journalOutput{Journal(a.Journal.Status(ctx))}, nil
}

func (a *api) restore(ctx context.Context, _ *none) (*restoredOutput, error) {
	if a.Journal == nil {
		return nil, errNoJournal
	}
	s, err := app.RestoreLost(ctx, a.Journal, a.Keys, app.NewEdit(ctx, ""))
	if errors.Is(err, journal.ErrNewer) {
		return nil, rest.NewProblem(http.StatusConflict,
			"Valkey has changes that the journal lacks: scripts/restore -force takes them back.")
	}
	if err != nil {
		return nil, err
	}
	return &restoredOutput{Restored{s.Written, s.Lost, s.Left}}, nil
}
