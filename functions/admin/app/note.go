package app

import (
	"context"
	"errors"

	"tidegate/internal/changes"
	"tidegate/internal/registry"
)

// Note is what the author of a change is told beside its result, which is valid.
type Note struct {
	Text string
	// Pending means that the change is not in force, not stored, or not known to be saved.
	Pending bool
}

type notesKey struct{}

// WithNotes returns a context whose changes add to notes.
func WithNotes(ctx context.Context, notes *[]Note) context.Context {
	return context.WithValue(ctx, notesKey{}, notes)
}

// NotesOf returns the notes so far.
func NotesOf(ctx context.Context) []Note {
	if notes, ok := ctx.Value(notesKey{}).(*[]Note); ok {
		return *notes
	}
	return nil
}

// besideResult has the errors that do not spoil a result, in words.
var besideResult = []struct {
	err  error
	note Note
}{
	{registry.ErrNotInForce, Note{"Saved. It is in force when Valkey is back.", true}},
	{registry.ErrNotStored, Note{"In force, but not stored yet. It is lost if Valkey loses it first.", true}},
	{registry.ErrRepeated, Note{"Made by an earlier request with this Idempotency-Key.", false}},
	{registry.ErrNotReplicated, Note{"Saved. A failover in the next minute may delay it.", false}},
}

// Noted takes an error beside a valid result for a note, and returns any other error.
func Noted(ctx context.Context, err error) error {
	for _, known := range besideResult {
		if errors.Is(err, known.err) {
			addNote(ctx, known.note)
			return nil
		}
	}
	return err
}

// NotedSecret is Noted for a change that makes a secret, which is shown even if nobody
// knows whether the change is saved.
func NotedSecret(ctx context.Context, err error) error {
	if errors.Is(err, changes.ErrUnknown) {
		addNote(ctx,
			Note{"It is not known whether this was saved. The audit shows it within 15 minutes, or never.",
				true})
		return nil
	}
	return Noted(ctx, err)
}

func addNote(ctx context.Context, n Note) {
	if notes, ok := ctx.Value(notesKey{}).(*[]Note); ok {
		*notes = append(*notes, n)
	}
}
