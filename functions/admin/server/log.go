package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/changes"
	"tidegate/internal/registry"
)

// Times of a banner.
const (
	statusKept  = 5 * time.Second  // how long the state of the log is shown
	statusTime  = time.Second      // to read it
	behindAfter = 10 * time.Second // below it, a writer may be about to bring its change
)

// banner reads the state of the log of changes for every page. It is safe for concurrent
// use.
type banner struct {
	status func(context.Context) registry.LogStatus

	mu     sync.Mutex
	read   time.Time
	texts  []string
	newest uint64    // newest change at since, which Valkey lacks
	since  time.Time // zero if Valkey has it
}

// warnings returns what every page says. A reader who goes away does not end the read, whose
// result is for all.
func (b *banner) warnings(ctx context.Context) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.read) > statusKept {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTime)
		defer cancel()
		b.texts, b.read = b.textsOf(b.status(ctx), now), now
	}
	return b.texts
}

func (b *banner) textsOf(s registry.LogStatus, now time.Time) []string {
	if s.Lowest >= b.newest || b.since.IsZero() {
		b.newest, b.since = s.Newest, now
	}
	var all []string
	var damaged *changes.DamagedError
	var stray *changes.StrayError
	switch {
	case errors.Is(s.Problem, changes.ErrAhead):
		all = append(all, "Valkey holds changes that this log lacks: bring the log back, or run "+
			"scripts/restore -take. Edits are refused.")
	case errors.As(s.Problem, &damaged):
		number := strconv.FormatUint(damaged.Number, 10)
		all = append(all,
			"Change "+number+" of the log is missing or damaged: bring its object back, or run "+
				"scripts/restore -void "+number+". Edits are refused.")
	case errors.As(s.Problem, &stray):
		all = append(all, stray.Name+
			" in the store of the log is not a change: move it away. Edits are refused.")
	case s.Problem != nil && s.Away == 0:
		all = append(all, "The log of changes is unavailable. Edits are refused. Revocations and bans act.")
	}
	switch {
	case s.Away > 0:
		all = append(all, page.Number(int64(s.Away))+
			" of 256 parts of Valkey do not answer. Edits there are refused.")
	case s.Problem == nil && s.Behind > 0 && now.Sub(b.since) > behindAfter:
		all = append(all, page.Number(int64(s.Behind))+
			" of 256 parts of Valkey lack changes. The next minute brings them.")
	}
	switch {
	case s.Marks == 1:
		all = append(all, "1 revocation or ban acts, but is not stored yet.")
	case s.Marks > 1:
		all = append(all, page.Number(int64(s.Marks))+" revocations and bans act, but are not stored yet.")
	}
	return all
}

// notesOf returns the notes of a request as text.
func notesOf(ctx context.Context) []string {
	var texts []string
	for _, n := range app.NotesOf(ctx) {
		texts = append(texts, n.Text)
	}
	return texts
}

// NoteHeader has what an answer of the API does not say of its change.
const NoteHeader = "Tidegate-Note"

// notedResponse adds notes to an answer of the API. Its status is 202 if the change is
// pending.
type notedResponse struct {
	http.ResponseWriter

	notes *[]app.Note
}

// WriteHeader implements http.ResponseWriter.
func (w *notedResponse) WriteHeader(status int) {
	for _, n := range *w.notes {
		w.Header().Add(NoteHeader, n.Text)
		if n.Pending && status >= 200 && status < 300 {
			status = http.StatusAccepted
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// withNotes collects the notes of a request.
func (s *server) withNotes(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	notes := &[]app.Note{}
	if s.IsAPI(r) {
		w = &notedResponse{w, notes}
	}
	return w, r.WithContext(app.WithNotes(r.Context(), notes))
}
