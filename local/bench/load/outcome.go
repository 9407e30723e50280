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

func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(shortest, longest, digits)
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
	step  time.Duration // of the series

	mu         sync.Mutex
	outcomes   []outcome
	latency    *hdrhistogram.Histogram
	service    *hdrhistogram.Histogram
	series     []*point
	counts     [kinds]int
	statuses   map[int16]int
	unexpected int
	expects    func(outcome) bool
}

// point is one step of the series: the calls that were due in this step.
type point struct {
	counts  [kinds]int
	latency *hdrhistogram.Histogram
}

// points is the approximate number of steps of a series.
const points = 120

func newTally(began, duration time.Duration, expects func(outcome) bool) *tally {
	step := max(250*time.Millisecond, (duration / points).Round(250*time.Millisecond))
	return &tally{
		began: began, step: step, latency: newHistogram(3), service: newHistogram(3),
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
	p := t.at(o.intended)
	p.counts[o.kind]++
	record(p.latency, o.latency())
}

// at returns the point of an instant.
func (t *tally) at(instant time.Duration) *point {
	i := int((instant - t.began) / t.step)
	for len(t.series) <= i {
		t.series = append(t.series, &point{latency: newHistogram(2)})
	}
	return t.series[i]
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
