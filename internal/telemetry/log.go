package telemetry

import (
	"context"
	"io"
	"log/slog"
)

// NewHandler returns a handler that writes JSON lines to out, each with the trace_id of
// its context. It redacts credentials: attributes with a secret name, and in any text API
// keys, machine tokens, reservations, JSON web tokens and what follows Bearer.
func NewHandler(out io.Writer, level slog.Leveler) slog.Handler {
	return handler{slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: redact})}
}

// handler adds the trace.
type handler struct{ slog.Handler }

// Handle adds the trace id at the top of a line, or within the logger's group.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := TraceID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the trace.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the trace.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
