package main

import (
	"testing"
	"time"
)

// measured returns a measurement in which some or all turns of a limiter were disturbed.
func measured(all bool) *measurement {
	evalsha := &measuredLimiter{name: "evalsha", allowed: &check{}}
	c := &measuredLimiter{name: "log100", allowed: &check{}, denied: &check{}}
	m := &measurement{
		limiters:    []*measuredLimiter{evalsha, c},
		probes:      []float64{100, 100, 50, 100, 100, 100, 100, 100},
		allocations: map[*measuredLimiter]float64{c: 4.9},
		bytes:       map[*measuredLimiter]float64{c: 599.6},
	}
	m.slices = []slice{
		{limiter: evalsha, rate: 1000, processor: 1000, probe: 5},
		{limiter: c, rate: 1, processor: 1e6, probe: 1},
		{limiter: c, rate: 3, processor: 1000, probe: 3}, // the server was idle
	}
	if !all {
		m.slices = append(m.slices, slice{limiter: c, rate: 300, processor: 3200, probe: 0},
			slice{limiter: c, rate: 500, processor: 2000, probe: 4})
	}
	m.trips = []trips{
		{limiter: c, calls: []time.Duration{30, 10, 20}, pings: []time.Duration{10, 10, 10}, probe: 6},
		{limiter: c, calls: []time.Duration{900}, pings: []time.Duration{1}, probe: 2},
	}
	return m
}

// The medians leave out the disturbed turns.
func TestDisturbedTurnsAreLeftOut(t *testing.T) {
	r := summarize(measured(false))
	for name, want := range map[string]float64{
		"limiter.log100.rate": 500, "limiter.log100.process_us": 3200, "limiter.log100.rate_vs_evalsha": 0.5,
		"limiter.log100.p50_vs_ping": 2, "limiter.log100.p99_vs_ping": 3, "limiter.log100.bytes": 600,
		"limiter.log100.allocs": 5,
	} {
		if got := r.values[name]; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if r.disturbed != 3 {
		t.Errorf("got %d disturbed turns, want 3: before the slow probe, after it, and with an idle server",
			r.disturbed)
	}
}

// A limiter whose turns were all disturbed still has figures.
func TestOnlyDisturbedTurns(t *testing.T) {
	if rate := summarize(measured(true)).values["limiter.log100.rate"]; rate != 3 {
		t.Errorf("rate %v, want 3", rate)
	}
}
