package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// Denial is a denied call. KeyID is the public id of the caller, never its credential or
// address.
type Denial struct {
	KeyID      string
	Route      string
	Limit      string
	RetryAfter time.Duration
}

const (
	defaultDenialInterval = time.Minute
	// maxDenied bounds the remembered callers, and so the lines of an interval in a flood
	// of callers.
	maxDenied = 1024
)

// Denials logs a caller's first denial in each interval, with the number of denials
// omitted since the last line. It is safe for concurrent use.
type Denials struct {
	log      *slog.Logger
	interval int64
	now      func() time.Time

	mu      sync.Mutex
	callers map[string]*caller
	others  int64 // omitted denials of callers that are not in callers
}

// caller is a recently denied caller.
type caller struct {
	logged  int64 // nanoseconds of the Unix epoch
	omitted int64
}

// NewDenials returns Denials that write to log. An interval of 0 means a minute.
func NewDenials(log *slog.Logger, interval time.Duration, now func() time.Time) *Denials {
	return &Denials{log: log, interval: int64(cmp.Or(interval, defaultDenialInterval)), now: now,
		callers: map[string]*caller{}}
}

// Log writes at most one line. Its omitted is the number of the caller's denials since
// the caller's last line. Its others_omitted is the number of denials of callers without
// a line of their own. Lines and omitted denials add up to all denials.
func (d *Denials) Log(ctx context.Context, denial Denial) {
	omitted, others, ok := d.admit(denial.KeyID)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("key_id", denial.KeyID), slog.String("route", denial.Route),
		slog.String("limit", denial.Limit),
		slog.Int64("retry_after_ms", denial.RetryAfter.Milliseconds()), slog.Int64("omitted", omitted),
		slog.Int64("others_omitted", others),
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "denied", attrs...)
}

// LogOnce writes at most one line for an id, as Log does for a caller: the id of a caller,
// or a text that is no part of a credential.
func (d *Denials) LogOnce(ctx context.Context, level slog.Level, message, id string, attrs ...slog.Attr) {
	if !d.log.Enabled(ctx, level) {
		return
	}
	if omitted, others, ok := d.admit(id); ok {
		d.log.LogAttrs(ctx, level, message, append(attrs, slog.Int64("omitted", omitted),
			slog.Int64("others_omitted", others))...)
	}
}

// admit reports whether to log the caller's denial, and how many were not logged before.
func (d *Denials) admit(id string) (omitted, others int64, ok bool) {
	now := d.now().UnixNano()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.callers[id]
	switch {
	case c != nil && !d.passed(c, now):
		c.omitted++
		return 0, 0, false
	case c == nil && !d.hasRoom(now):
		d.others++
		return 0, 0, false
	case c == nil:
		c = &caller{}
		d.callers[id] = c
	}
	omitted, others = c.omitted, d.others
	*c, d.others = caller{logged: now}, 0
	return omitted, others, true
}

func (d *Denials) passed(c *caller, now int64) bool {
	return now-c.logged >= d.interval || now < c.logged
}

// hasRoom reports whether another caller can be remembered. If not, it first forgets
// callers whose interval has passed.
func (d *Denials) hasRoom(now int64) bool {
	if len(d.callers) < maxDenied {
		return true
	}
	for id, c := range d.callers {
		if d.passed(c, now) {
			d.others += c.omitted
			delete(d.callers, id)
		}
	}
	return len(d.callers) < maxDenied
}

// Flush writes the number of omitted denials that no line contains yet. It is for the end
// of a program.
func (d *Denials) Flush(ctx context.Context) {
	d.mu.Lock()
	others := d.others
	for _, c := range d.callers {
		others += c.omitted
	}
	d.callers, d.others = map[string]*caller{}, 0
	d.mu.Unlock()
	if others > 0 {
		d.log.LogAttrs(ctx, slog.LevelInfo, "denials omitted", slog.Int64("others_omitted", others))
	}
}
