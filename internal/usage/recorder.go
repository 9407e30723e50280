package usage

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

// Options of a Recorder. Zero fields mean the defaults.
type Options struct {
	Interval  time.Duration // between flushes at least; default 1 s
	Newcomers int           // unregistered subjects that a bucket takes a day; default 1,024
}

const (
	defaultInterval  = time.Second
	defaultNewcomers = 1024
	// maxBackOff is the longest interval while the store is away: a dead shard would hold
	// up the check that carries the Batch.
	maxBackOff = 30 * time.Second
	// maxEarly is how many Batches may leave early after a pause. One more may with each
	// interval.
	maxEarly = 16
)

// Recorder gathers outcomes until they are flushed. It is safe for concurrent use and
// bounded in memory.
type Recorder struct {
	interval  time.Duration
	newcomers int
	now       func() time.Time

	mu      sync.Mutex
	pending *pending
	flushed int64 // when a Batch was last taken, in nanoseconds of the Unix epoch
	used    int64 // until when the intervals are used up by Batches, likewise
	// routesUsed is used for the pauses between routes.
	routesUsed int64
	pause      time.Duration
	totals     int // which of the buckets the next totals go to; the same until its server knows the script

	without map[scriptIn]bool // the server of the bucket did not know the script

	ranked [keyspace.Buckets]ranked

	near      map[string]int64 // until when NearLimit has a subject, in milliseconds since 1970
	nearSince time.Time        // when near was last emptied
}

type scriptIn struct {
	script *lua.Script
	bucket keyspace.Bucket
}

// NewRecorder returns an empty Recorder whose clock is now, time.Now in programs.
func NewRecorder(o Options, now func() time.Time) *Recorder {
	interval := cmp.Or(o.Interval, defaultInterval)
	return &Recorder{
		interval: interval, pause: interval, newcomers: cmp.Or(o.Newcomers, defaultNewcomers), now: now,
		pending: newPending(0), without: map[scriptIn]bool{},
		totals: rand.IntN(totalBuckets), //nolint:gosec // spreads load, hides nothing
	}
}

// Record counts a call. It does not allocate for a subject that is counted already in
// this minute.
func (r *Recorder) Record(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.record(o)
	r.listNear(o)
}

// Due reports whether it is time to flush: there is something to send, and the interval
// has passed since the last Batch. While the store does not take Batches, the interval
// doubles with each up to 30 s. It goes by the time of day, as the monotonic clock may
// stand still while a function is frozen.
func (r *Recorder) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due(now)
}

func (r *Recorder) due(now time.Time) bool {
	passed := now.UnixNano() - r.flushed
	return r.pending.urgent() && (passed >= int64(r.pause) || passed < 0)
}

// Batch takes what was gathered, or returns nil unless it is due: of callers at the same
// time one gets it.
func (r *Recorder) Batch(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due(now) {
		return nil
	}
	return r.take(now)
}

// early takes what was gathered before it is due, for an environment that is called too
// rarely for its next call to take it along. It returns nil when there is nothing, when
// maxEarly Batches left at once, and while the store does not take Batches.
func (r *Recorder) early(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare := r.pause == r.interval && r.used-now.UnixNano() <= (maxEarly-1)*int64(r.interval)
	if !r.pending.urgent() || !spare && !r.due(now) {
		return nil
	}
	return r.take(now)
}

// Drain takes what was gathered even if it is not due, for the end of a program. It
// returns nil when there is nothing.
func (r *Recorder) Drain(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending.empty() {
		return nil
	}
	r.routesUsed = 0
	return r.take(now)
}

func (r *Recorder) take(now time.Time) *Batch {
	if now.UnixNano() < r.flushed {
		r.used, r.routesUsed = 0, 0 // the clock was set back
	}
	r.flushed = now.UnixNano()
	r.forgetNear(now)
	r.used = max(r.used, r.flushed) + int64(r.interval)
	b := &Batch{recorder: r, newcomers: r.newcomers, now: now}
	totals := totalBucket(r.totals)
	counts := pack(r.pending.entries, totals)
	for i := range counts {
		counts[i].floors = r.ranked[counts[i].bucket].of(counts[i].hour)
	}
	next := newPending(len(r.pending.entries))
	var routes []parcel
	if len(r.pending.routes) > 0 && r.routesDue(r.flushed) {
		routes = packRoutes(r.pending.routes)
	} else {
		next.routes, next.routeIndex = r.pending.routes, r.pending.routeIndex
	}
	parts := [][]parcel{counts, packLog(r.pending.kinds, totals), packListed(r.pending.listed), routes}
	for _, ofOneScript := range parts {
		r.giveText(ofOneScript)
	}
	b.parcels = slices.Concat(parts...)
	r.pending = next
	return b
}

// A server that lost its scripts needs a text only once, but which buckets it serves is
// not known here. Each of the first eager parcels for servers that knew no script has the
// text, and then every spare-th: parcels are in order of their slots, and a server
// executes what it gets in that order, so that it mostly knows the script from a parcel
// before.
const (
	eager = 8
	spare = 16
)

func (r *Recorder) giveText(parcels []parcel) {
	n := 0
	for i := range parcels {
		if p := &parcels[i]; r.without[p.scriptIn()] {
			p.text = n < eager || n%spare == 0
			n++
		}
	}
}

// adapt sets the interval after a Batch.
func (r *Recorder) adapt(failed bool) {
	if failed {
		r.pause = min(2*r.pause, maxBackOff)
		return
	}
	r.pause = r.interval
}

// turns is how often a flush sends what was not stored: once, then with the script's
// text, then for what that text did not reach.
const turns = 4

// Flush sends all that was gathered, due or not, for the end of a program.
// Report.Returned is what still waits.
func (r *Recorder) Flush(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.Drain)
}

// FlushEarly sends what was gathered after a check's answer, for an environment that is
// frozen until its next call. A busy one keeps to the interval: of calls that follow each
// other closely maxEarly leave one by one, further ones an interval later.
func (r *Recorder) FlushEarly(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.early)
}

func (r *Recorder) send(
	ctx context.Context, client valkey.Client, take func(time.Time) *Batch,
) Report {
	var sum Report
	for range turns {
		b := take(r.now())
		if b == nil {
			break
		}
		turn := b.Acknowledge(client.DoMulti(ctx, b.Commands(client)...))
		sum = Report{Stored: sum.Stored + turn.Stored, Lost: sum.Lost + turn.Lost, Returned: turn.Returned,
			Err: cmp.Or(sum.Err, turn.Err)}
		if turn.Err != nil {
			break
		}
	}
	return sum
}
