package crossing

import (
	"context"
	_ "embed" // the script
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce"
)

const (
	// maxPending bounds the events that wait for Send: those of one call, and of calls
	// at the same time.
	maxPending = 256
	// maxMarks bounds the marks that an environment remembers, to about 0.5 MB.
	maxMarks = 4096
	// leastMark is the shortest time that a threshold is not reported again.
	leastMark = time.Second
)

// Log reports what calls cross. Note gathers events, Send reports them. It is safe for
// concurrent use and bounded in memory.
type Log struct {
	lines *slog.Logger

	mu      sync.Mutex
	pending []Event
	marks   *simplelru.LRU[string, time.Time] // until when, by Valkey's clock
}

// NewLog returns a Log that writes its lines where a logger does, whatever its level.
func NewLog(lines *slog.Logger) *Log {
	// fails for a size below 1 alone
	marks, _ := simplelru.NewLRU[string, time.Time](maxMarks, nil)
	return &Log{lines: slog.New(everyLevel{lines.Handler()}), marks: marks}
}

// everyLevel is a handler that leaves nothing out.
type everyLevel struct{ slog.Handler }

// Enabled is true.
func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }

// Note gathers what a call crossed, which for almost every call is nothing.
func (l *Log) Note(call Call, crossings []enforce.Crossing) {
	if len(crossings) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range crossings {
		e := call.event(x)
		if until, known := l.marks.Get(e.mark()); known && e.Time.Before(until) {
			continue
		}
		if len(l.pending) < maxPending {
			l.pending = append(l.pending, e)
		}
	}
}

// Waiting reports whether Send has something to report.
func (l *Log) Waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending) > 0
}

func (l *Log) take() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.pending
	l.pending = nil
	return events
}

// Send reports what was gathered: in Valkey's list, and by a line for what was not
// reported before. Without a client, or when Valkey does not say, the line is written.
func (l *Log) Send(ctx context.Context, client valkey.Client) {
	for _, e := range l.take() {
		news, err := e.store(ctx, client)
		if err != nil {
			l.lines.LogAttrs(ctx, slog.LevelWarn, unlisted, slog.Any("cause", err))
		}
		if err != nil || news == reportedNow {
			l.lines.LogAttrs(ctx, slog.LevelInfo, Message, e.attrs()...)
		}
		l.mu.Lock()
		l.marks.Add(e.mark(), e.Resets)
		l.mu.Unlock()
	}
}

const (
	reportedNow = 1 // by crossing.lua
	unlisted    = "crossed limit not listed"
)
