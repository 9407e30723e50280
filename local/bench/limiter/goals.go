package main

import (
	"fmt"
	"io"

	"tidegate/local/bench/figures"
)

// goal is a figure's bound that Tidegate's limiter is held to.
type goal struct {
	text    string
	limiter string
	what    string
	bound   figures.Goal
}

var goals = []goal{
	{"log 100: allowed rate to EVALSHA", "log100", "rate_vs_evalsha", atLeast(0.38)},
	{"counter: allowed rate to EVALSHA", "counter", "rate_vs_evalsha", atLeast(0.46)},
	{"log 100: denied rate to EVALSHA", "log100", "denied_rate_vs_evalsha", atLeast(0.45)},
	{"counter: denied rate to EVALSHA", "counter", "denied_rate_vs_evalsha", atLeast(0.45)},
	{"log 100: rate to Upstash's approximation", "log100", "rate_vs_upstash", atLeast(1.3)},
	{"three logs: rate to one", "three_logs", "rate_vs_one", atLeast(0.75)},
	{"three counters: rate to one", "three_counters", "rate_vs_one", atLeast(0.75)},
	{"log 100: median trip to PING", "log100", "p50_vs_ping", atMost(1.05)},
	{"counter: median trip to PING", "counter", "p50_vs_ping", atMost(1.05)},
	{"log 100: client allocations per check", "log100", "allocs", atMost(5)},
	{"counter: client allocations per check", "counter", "allocs", atMost(5)},
	{"log 100: bytes of a full key", "log100", "bytes", atMost(600)},
	{"counter: bytes of a full key", "counter", "bytes", atMost(96)},
	{"log 10,000: bytes of a full key", "log10000", "bytes", atMost(60_000)},
}

func atLeast(bound float64) figures.Goal { return figures.Goal{Bound: bound, Least: true} }

func atMost(bound float64) figures.Goal { return figures.Goal{Bound: bound} }

func (r *report) printGoals(out io.Writer) {
	t := table(out, "Goals", "", "goal", "measured", "")
	for _, g := range goals {
		value, found := r.value(g.limiter, g.what)
		if !found {
			continue
		}
		row(t, g.text, g.bound.String(), fmt.Sprintf("%.4g", value), g.bound.Verdict(value))
	}
	_ = t.Flush()
}
