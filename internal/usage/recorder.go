package usage

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
)

// Options of a Recorder. Zero fields mean the defaults.
type Options struct {
	Interval  time.Duration // least time between flushes; default 1 s
	Newcomers int           // unregistered subjects that a bucket accepts a day; default 1,024
}

const (
	defaultInterval  = time.Second
	defaultNewcomers = 1024
	// maxPause is the longest interval while Valkey is unavailable: a dead shard
	// delays the check that carries the Batch.
	maxPause = 30 * time.Second
	// maxWait is how long refusals of callers that proved no key wait for other records.
	maxWait = time.Minute
	// maxEarly is how many Batches may be sent early after a pause. With each interval,
	// one more may.
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
	// pause is the interval in force, longer than interval while Valkey fails.
	pause     time.Duration
	lastBatch int64 // when a Batch was last taken, in Unix nanoseconds
	// earlyTAT is the theoretical arrival time of GCRA, in Unix nanoseconds, of early
	// Batches at one an interval.
	earlyTAT int64
	// nextTotals is the index of the bucket of the next totals. It advances only once the
	// bucket's server knows the script.
	nextTotals int

	scriptUnknown map[scriptIn]bool // of buckets whose server did not know the script

	ranked [keyspace.Buckets]bucketFloors

	nearUntil map[string]int64 // until when NearLimit lists a subject, in Unix milliseconds
	nearSince time.Time        // when nearUntil was last emptied
}

type scriptIn struct {
	script *lua.Script
	bucket keyspace.Bucket
}

// NewRecorder returns an empty Recorder. Programs pass time.Now as its clock.
func NewRecorder(o Options, now func() time.Time) *Recorder {
	interval := cmp.Or(o.Interval, defaultInterval)
	return &Recorder{
		interval: interval, pause: interval, newcomers: cmp.Or(o.Newcomers, defaultNewcomers), now: now,
		pending: newPending(0), scriptUnknown: map[scriptIn]bool{},
		nextTotals: rand.IntN(totalBuckets), //nolint:gosec // spreads load, hides nothing
	}
}

// Record counts a call. It does not allocate for a subject that was counted before in the
// same minute.
func (r *Recorder) Record(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.record(o)
	r.listNear(o)
}

// Due reports whether it is time to flush: records are pending, and the interval has
// passed since the last Batch. Each failed Batch doubles the interval, up to 30 s. Due
// uses the wall clock, since the monotonic clock may stop while a function is frozen.
func (r *Recorder) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due(now)
}

func (r *Recorder) due(now time.Time) bool {
	passed := now.UnixNano() - r.lastBatch
	pause := r.pause
	if !r.pending.urgent() {
		pause = max(pause, maxWait)
	}
	return !r.pending.empty() && (passed >= int64(pause) || passed < 0)
}

// Batch takes the pending records, or returns nil unless they are due. Of concurrent
// callers, one gets the Batch.
func (r *Recorder) Batch(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due(now) {
		return nil
	}
	return r.take(now)
}

// early takes the pending records before they are due, for an environment whose next call
// may come too late to carry them. It returns nil if nothing is urgent, after maxEarly
// Batches in close succession, and while Valkey fails.
func (r *Recorder) early(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	mayLeave := r.pause == r.interval && r.earlyTAT-now.UnixNano() <= (maxEarly-1)*int64(r.interval)
	if (!r.pending.urgent() || !mayLeave) && !r.due(now) {
		return nil
	}
	return r.take(now)
}

// Drain takes the pending records even if they are not due, for the end of a program. It
// returns nil if there are none.
func (r *Recorder) Drain(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending.empty() {
		return nil
	}
	return r.take(now)
}

func (r *Recorder) take(now time.Time) *Batch {
	if now.UnixNano() < r.lastBatch { // the clock was set back
		r.earlyTAT = 0
	}
	r.lastBatch = now.UnixNano()
	r.earlyTAT = max(r.earlyTAT, r.lastBatch) + int64(r.interval)
	r.expireNear(now)
	next := newPending(len(r.pending.entries))
	byScript := [][]parcel{r.packCounts(r.pending.entries), r.packDenials(r.pending.denials.list),
		r.packDenials(r.pending.trials.list), packStates(r.pending.states)}
	for _, parcels := range byScript {
		r.addText(parcels)
	}
	r.pending = next
	return &Batch{recorder: r, newcomers: r.newcomers, now: now, parcels: slices.Concat(byScript...)}
}

// A server that lost its scripts needs a text only once, but the Recorder does not know
// which buckets a server has. Of the parcels whose server knew no script, the first
// leadingTexts carry the text, and then one in textEvery. A server executes parcels in
// the order of their buckets, so it mostly has the script from an earlier one.
const (
	leadingTexts = 8
	textEvery    = 16
)

func (r *Recorder) addText(parcels []parcel) {
	n := 0
	for i := range parcels {
		if p := &parcels[i]; r.scriptUnknown[p.scriptIn()] {
			p.withText = n < leadingTexts || n%textEvery == 0
			n++
		}
	}
}

// Verdict says how a call was answered. The zero value is an allowed call. Flags combine,
// as in Denied|Degraded.
type Verdict uint8

// Allowed is a call that was allowed and has no flag.
const Allowed Verdict = 0

// The flags of a Verdict.
const (
	Denied       Verdict = 1 << iota // not let in
	ShadowDenied                     // a limit in shadow mode would have denied it
	Degraded                         // decided without Valkey
	OldSecret                        // with the previous secret
)

// Outcome is one call.
type Outcome struct {
	// Subject is the caller's id: at most 64 bytes of UTF-8, without a colon. A call with
	// any other Subject, or none, counts in the totals alone.
	Subject string
	// Registered says that the subject is in a registry of limited size, as API keys are.
	// Other subjects, which anybody can make up, such as addresses, cannot displace it.
	Registered bool
	Verdict    Verdict
	Cost       int64    // less than 1 means 1
	Rules      []string // ids of the rules that applied, of the same form as Subject
	Time       time.Time
	// Denial is the call's entry in the denial log; nil for none. If its cause refuses a
	// credential, the Outcome counts as a refusal and not as a call. Subject is then a
	// registered caller that proved its key, or empty.
	Denial *denylog.Denial
	// Trials are the call's entries in the log of limits on trial. The call passed.
	Trials []denylog.Denial
	// DeniedUntil is until when further calls of the subject are denied, as far as this
	// call shows: it was denied, or took the last of a limit. Zero if the next may pass.
	DeniedUntil time.Time
	// NearUntil is until when a limit of the subject may stay nearly used up without
	// further calls. Zero if none is.
	NearUntil time.Time
}

const maxIDLen = 64

// validID reports whether an id can be part of a key's name.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDLen && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool {
			return r <= ' ' || r == ':' || r == '~' || r == '{' || r == '}' || r == 0x7f
		})
}
