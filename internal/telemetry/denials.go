package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// Denial is a call that was over a limit. KeyID is the public id of the caller, never its
// credential or address.
type Denial struct {
	KeyID      string
	Rule       string
	Limit      string
	RetryAfter time.Duration
}

const (
	defaultDenialInterval = time.Minute
	// maxDenied is how many callers are remembered. In a flood of unique callers as many
	// lines an interval are written at most.
	maxDenied = 1024
)

// Denials logs a caller's first denial in each interval, and with it how many it left
// out. It is safe for concurrent use.
type Denials struct {
	log      *slog.Logger
	interval int64
	now      func() time.Time

	mu      sync.Mutex
	callers map[string]*caller
	others  int64 // denials left out of callers that are no longer, or never were, remembered
}

// caller is one that was denied of late.
type caller struct {
	logged  int64 // nanoseconds of the Unix epoch
	omitted int64
}

// NewDenials returns Denials that write to log. The interval is a minute unless given.
func NewDenials(log *slog.Logger, interval time.Duration, now func() time.Time) *Denials {
	return &Denials{log: log, interval: int64(cmp.Or(interval, defaultDenialInterval)), now: now,
		callers: map[string]*caller{}}
}

// Log writes at most one line. Its omitted is how many denials of the caller were left
// out since the caller's last line, its others_omitted those of callers that had no line
// of their own since: lines and omitted denials together are all denials.
func (d *Denials) Log(ctx context.Context, denial Denial) {
	omitted, others, ok := d.admit(denial.KeyID)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("key_id", denial.KeyID), slog.String("rule", denial.Rule),
		slog.String("limit", denial.Limit),
		slog.Int64("retry_after_ms", denial.RetryAfter.Milliseconds()), slog.Int64("omitted", omitted),
		slog.Int64("others_omitted", others),
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "denied", attrs...)
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
	case c == nil && !d.room(now):
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

// room forgets callers whose interval has passed when there is no room for another.
func (d *Denials) room(now int64) bool {
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

// Flush writes how many denials were left out and in no line yet, for the end of a
// program.
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
