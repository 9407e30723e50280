//go:build unix

package main

import (
	"sync"
	"time"

	"tidegate/internal/testing/rolling"
	"tidegate/local/bench/figures"
)

// kind is the meaning of an answer.
type kind uint8

const (
	admitted     kind = iota // allowed by the limiter
	denied                   // over a limit
	unauthorized             // unknown credential
	undecided                // allowed or denied without Valkey
	failed                   // any other status
	broken                   // no answer: it is unknown whether the call counted
	kinds
)

var kindNames = [kinds]string{"admitted", "denied", "unauthorized", "undecided", "failed", "broken"}

func (k kind) String() string { return kindNames[k] }

// outcome is one call as the client saw it.
type outcome struct {
	caller   int32
	status   int16
	kind     kind
	intended time.Duration // when the call was due
	sent     time.Duration
	received time.Duration
}

// latency returns the time from when the call was due to its answer.
func (o outcome) latency() time.Duration { return o.received - o.intended }

// service returns the time from when the call was sent to its answer.
func (o outcome) service() time.Duration { return o.received - o.sent }

// span returns the span of time in which the limiter decided.
func (o outcome) span() rolling.Span { return rolling.Span{First: o.sent, Last: o.received} }

// quantiles returns quantiles of a time of the outcomes; zeros if there are none.
func quantiles(outcomes []outcome, of func(outcome) time.Duration, at ...float64) []time.Duration {
	found := make([]time.Duration, len(at))
	if len(outcomes) == 0 {
		return found
	}
	times := make([]time.Duration, len(outcomes))
	for i, o := range outcomes {
		times[i] = of(o)
	}
	for i, q := range at {
		found[i] = figures.Quantile(times, q)
	}
	return found
}

// tally collects the outcomes of calls. It is safe for concurrent use.
type tally struct {
	began time.Duration

	mu         sync.Mutex
	outcomes   []outcome
	counts     [kinds]int
	statuses   map[int16]int
	unexpected int
	expects    func(outcome) bool
}

func newTally(began time.Duration, expects func(outcome) bool) *tally {
	return &tally{began: began, statuses: map[int16]int{}, expects: expects}
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	t.counts[o.kind]++
	t.statuses[o.status]++
	if !t.expects(o) {
		t.unexpected++
	}
}

// recent is the number of the last calls whose percentiles the progress shows.
const recent = 10_000

// snapshot is the state of a tally at an instant.
type snapshot struct {
	calls, unexpected int
	counts            [kinds]int
	p50, p99          time.Duration // of the recent calls
}

func (t *tally) now() snapshot {
	t.mu.Lock()
	s := snapshot{calls: len(t.outcomes), unexpected: t.unexpected, counts: t.counts}
	last := t.outcomes[max(0, len(t.outcomes)-recent):] // add never changes an outcome
	t.mu.Unlock()
	latencies := quantiles(last, outcome.latency, 0.5, 0.99)
	s.p50, s.p99 = latencies[0], latencies[1]
	return s
}
