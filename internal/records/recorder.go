package records

import (
	"sync"
	"time"

	"tidegate/internal/cause"
)

const (
	// gap is the least time between two batches, but for what is urgent.
	gap = 20 * time.Millisecond
	// anonymousGap is the least time between batches that have nothing but refusals of
	// callers that proved nothing, so that a flood of them costs little.
	anonymousGap = time.Second
	// minPause and maxPause bound the time between batches while Valkey fails.
	minPause = time.Second
	maxPause = 30 * time.Second
	// minNearSlack is how much longer than necessary a caller is listed as near a limit,
	// at least, so that later calls need not list it again.
	minNearSlack = time.Minute
	// stateSlack is by how much a denial must last longer than the listed one to be
	// listed.
	stateSlack = time.Second
	// maxMemory bounds each map of what a Recorder remembers of sent records. A full map
	// is emptied; what it had is then sent again.
	maxMemory = 8192
)

// Recorder gathers calls in memory until they leave. It is safe for concurrent use and
// bounded in memory.
type Recorder struct {
	now func() time.Time

	mu        sync.Mutex
	pending   *pending
	pause     time.Duration // while Valkey fails; 0 otherwise
	last      int64         // when a batch was last taken, in Unix nanoseconds
	failing   int64         // the minute since which batches fail; 0 for none
	admitted  map[string]int64
	full      [partitions]int64 // the hour in which a partition accepts no newcomer
	standings map[standingOf]*standing
	listed    map[stateOf]state
	told      map[counter]int64 // counts of denials and of all calls, as last known
	touched   map[string]int64  // the minute in which a key got its expiry
}

// NewRecorder returns an empty Recorder. Programs pass time.Now as its clock.
func NewRecorder(now func() time.Time) *Recorder {
	return &Recorder{
		now: now, pending: newPending(), admitted: map[string]int64{},
		standings: map[standingOf]*standing{}, listed: map[stateOf]state{},
		told: map[counter]int64{}, touched: map[string]int64{},
	}
}

// Record counts a call.
func (r *Recorder) Record(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending
	p.total(&c)
	id, registered := c.Caller, c.Registered
	if !validID(id) {
		id, registered = nobodyID, true
		c.Caller = ""
	} else {
		p.known = true
	}
	if !r.admit(id, registered, hours.slotOf(c.Time)) {
		p.add(totalID, string(unlistedKind), c.Time, 1)
		return
	}
	kind, shadow := c.kind(), ""
	if c.Cause == 0 && c.Shadow != "" {
		shadow = string(shadowKind) + clip(c.Shadow, maxText)
	}
	p.call(id, &c, kind, shadow)
	if c.Cause != 0 && (id != nobodyID || c.Reason != "") {
		k := counter{id, minutes, minutes.slotOf(c.Time), kind}
		told, known := r.told[k]
		if !known {
			remember(r.told, k, 0)
			p.urgent = p.urgent || id != nobodyID
		}
		p.deny(k, &c, registered, told)
	}
	if id != nobodyID {
		r.rank(id, Busiest, &c)
		if c.Cause != 0 || shadow != "" {
			r.rank(id, MostDenied, &c)
		}
		r.list(&c, kind)
	}
}

// remember sets a value of a bounded map.
func remember[K comparable, V any](m map[K]V, k K, v V) {
	if _, found := m[k]; !found && len(m) >= maxMemory {
		clear(m)
	}
	m[k] = v
}

// admit reports whether a caller has counts of its own. Unregistered callers are accepted
// until their partition is full for the hour.
func (r *Recorder) admit(id string, registered bool, hour int64) bool {
	if registered {
		return r.pending.room(id, true)
	}
	newcomer := r.admitted[id] != hour
	part := partitionOf(id)
	if newcomer && r.full[part] == hour || !r.pending.room(id, false) {
		return false
	}
	if newcomer {
		remember(r.admitted, id, hour)
		r.pending.newcomers[part] = append(r.pending.newcomers[part], id)
	}
	return true
}

// rank counts a call for the rankings of an order.
func (r *Recorder) rank(id string, o Order, c *Call) {
	at := standingOf{id, o}
	s := r.standings[at]
	if s == nil {
		s = &standing{}
		remember(r.standings, at, s)
	}
	s.count(hours.slotOf(c.Time))
	for i := range rankings {
		if s.due(i) > 0 {
			r.pending.ranked[at] = true
		}
	}
}

// list lists what denies a caller from now on, and that a limit is nearly used up. What is
// listed already for long enough is not listed again.
func (r *Recorder) list(c *Call, kind string) {
	at := c.Time.UnixMilli()
	if (c.Cause == cause.Limit || c.Cause == cause.Ban) && !c.Degraded {
		k := stateOf{c.Caller, kind}
		s := state{registered: c.Registered, at: at}
		if c.RetryAfter > 0 {
			s.until = at + c.RetryAfter.Milliseconds()
		}
		old, known := r.listed[k]
		if !known || at-old.at >= time.Minute.Milliseconds() ||
			s.until-old.until >= stateSlack.Milliseconds() {
			remember(r.listed, k, s)
			r.pending.states[k] = s
		}
	}
	if k := (stateOf{c.Caller, nearState}); c.Registered && c.NearFor > 0 &&
		at+c.NearFor.Milliseconds() > r.listed[k].until {
		slack := max(minNearSlack, c.NearFor/4)
		s := state{registered: true, at: at, until: at + (c.NearFor + slack).Milliseconds()}
		remember(r.listed, k, s)
		r.pending.states[k] = s
	}
}

// Due reports whether pending records may leave. It uses the wall clock, since the
// monotonic clock may stop while a function is frozen.
func (r *Recorder) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due(now)
}

func (r *Recorder) due(now time.Time) bool {
	least := gap
	switch {
	case r.pending.empty():
		return false
	case r.pause > 0:
		least = r.pause
	case r.pending.urgent:
		return true
	case !r.pending.known:
		least = anonymousGap
	}
	passed := now.UnixNano() - r.last
	return passed >= int64(least) || passed < 0
}

// Batch takes the pending records, or returns nil if they are not due. The commands of a
// batch may leave with those of a check.
func (r *Recorder) Batch(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due(now) {
		return nil
	}
	return r.take(now)
}

// drain takes the pending records even if they are not due.
func (r *Recorder) drain(now time.Time) *Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending.empty() {
		return nil
	}
	return r.take(now)
}
