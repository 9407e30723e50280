//go:build unix

package main

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidegate/internal/testing/rolling"
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

// The range of histograms in microseconds: the maximum is far above any time-out.
const (
	shortest = int64(1)
	longest  = int64(10 * time.Minute / time.Microsecond)
)

// significantDigits is the precision of histograms in decimal digits.
const significantDigits = 3

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(shortest, longest, significantDigits)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), shortest), longest)) // in range
}

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond
}

// tally collects the outcomes of calls. It is safe for concurrent use.
type tally struct {
	began time.Duration

	mu         sync.Mutex
	outcomes   []outcome
	latency    *hdrhistogram.Histogram
	service    *hdrhistogram.Histogram
	counts     [kinds]int
	statuses   map[int16]int
	unexpected int
	expects    func(outcome) bool
}

func newTally(began time.Duration, expects func(outcome) bool) *tally {
	return &tally{
		began: began, latency: newHistogram(), service: newHistogram(),
		statuses: map[int16]int{}, expects: expects,
	}
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	record(t.latency, o.latency())
	record(t.service, o.service())
	t.counts[o.kind]++
	t.statuses[o.status]++
	if !t.expects(o) {
		t.unexpected++
	}
}

// snapshot is the state of a tally at an instant.
type snapshot struct {
	calls, unexpected int
	counts            [kinds]int
	p50, p99          time.Duration
}

func (t *tally) now() snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return snapshot{
		calls: len(t.outcomes), unexpected: t.unexpected, counts: t.counts, p50: quantile(t.latency, 50),
		p99: quantile(t.latency, 99),
	}
}
