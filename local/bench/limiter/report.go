package main

import (
	"math"
	"slices"
	"time"

	"tidegate/local/bench/figures"
)

// report has the figures of a measurement.
type report struct {
	*measurement
	figures   []figures.Figure
	values    map[string]float64
	spreads   map[string]float64 // of a rate: half the distance between its quartiles, relative to it
	usual     float64            // rate of PINGs
	disturbed int                // turns left out of the medians
}

const (
	slow = 0.85 // of the usual rate of PINGs: a turn with slower ones before or after it was disturbed
	// of the time: a turn in which the server's process worked less was disturbed, since
	// it had enough to do
	idle = 0.9
)

func summarize(m *measurement) *report {
	r := &report{measurement: m, values: map[string]float64{}, spreads: map[string]float64{},
		usual: quantile(m.probes, 0.5)}
	for _, c := range m.limiters {
		for _, s := range []scenario{spread, denied, hot, hotDenied} {
			r.addRates(c, s.name)
		}
		for _, s := range []scenario{spread, denied} {
			r.addTrips(c, s.name)
		}
		if bytes, found := m.bytes[c]; found {
			r.add(c.name, "bytes", math.Round(bytes), "bytes")
		}
		r.add(c.name, "allocs", math.Round(m.allocations[c]), "allocations")
	}
	r.addRatios()
	return r
}

func (r *report) add(limiter, what string, value float64, unit string) {
	name := "limiter." + limiter + "." + what
	value = math.Round(value*1e4) / 1e4
	r.figures = append(r.figures, figures.Of(name, value, unit))
	r.values[name] = value
}

// value returns a figure of a limiter.
func (r *report) value(limiter, what string) (float64, bool) {
	v, found := r.values["limiter."+limiter+"."+what]
	return v, found
}

// slowAt reports whether the probe before a turn or the one after it was slow.
func (r *report) slowAt(probe int) bool {
	return min(r.probes[probe], r.probes[probe+1]) < slow*r.usual
}

// undisturbed returns the turns that were not disturbed, or all turns if every one was,
// and how many were.
func undisturbed[T any](turns []T, disturbed func(T) bool) (kept []T, leftOut int) {
	for _, turn := range turns {
		if !disturbed(turn) {
			kept = append(kept, turn)
		}
	}
	leftOut = len(turns) - len(kept)
	if len(kept) == 0 {
		return turns, leftOut
	}
	return kept, leftOut
}

func (r *report) addRates(c *measuredLimiter, scenario string) {
	var turns []slice
	for _, s := range r.slices {
		if s.limiter == c && s.scenario == scenario {
			turns = append(turns, s)
		}
	}
	if len(turns) == 0 {
		return
	}
	turns, leftOut := undisturbed(turns, func(s slice) bool {
		return r.slowAt(s.probe) || s.rate*s.processor/1e6 < idle
	})
	r.disturbed += leftOut
	var rates, commands, processors []float64
	for _, s := range turns {
		rates, commands, processors = append(rates, s.rate), append(commands, s.command),
			append(processors, s.processor)
	}
	rate := quantile(rates, 0.5)
	r.add(c.name, scenario+"rate", math.Round(rate), "1/s")
	r.add(c.name, scenario+"cpu_us", quantile(commands, 0.5), "us")
	r.add(c.name, scenario+"process_us", quantile(processors, 0.5), "us")
	r.spreads[c.name+"."+scenario+"rate"] = (quantile(rates, 0.75) - quantile(rates, 0.25)) / 2 / rate
}

func (r *report) addTrips(c *measuredLimiter, scenario string) {
	var turns []trips
	for _, t := range r.trips {
		if t.limiter == c && t.scenario == scenario {
			turns = append(turns, t)
		}
	}
	if len(turns) == 0 {
		return
	}
	turns, leftOut := undisturbed(turns, func(t trips) bool { return r.slowAt(t.probe) })
	r.disturbed += leftOut
	var calls, pings, commands []float64
	for _, t := range turns {
		calls, pings, commands = appendMicros(calls, t.calls), appendMicros(pings, t.pings),
			append(commands, t.command)
	}
	r.add(c.name, scenario+"p50_us", quantile(calls, 0.5), "us")
	r.add(c.name, scenario+"p50_vs_ping", quantile(calls, 0.5)/quantile(pings, 0.5), "ratio")
	r.add(c.name, scenario+"p99_us", quantile(calls, 0.99), "us")
	r.add(c.name, scenario+"p99_vs_ping", quantile(calls, 0.99)/quantile(pings, 0.99), "ratio")
	if _, saturated := r.value(c.name, scenario+"cpu_us"); !saturated {
		r.add(c.name, scenario+"cpu_us", quantile(commands, 0.5), "us")
	}
}

func appendMicros(values []float64, durations []time.Duration) []float64 {
	for _, d := range durations {
		values = append(values, figures.Micros(d))
	}
	return values
}

// addRatios relates each rate to that of the trivial script, of Upstash's algorithm and,
// of three limits, to that of one.
func (r *report) addRatios() {
	relate := func(c *measuredLimiter, what, to, of, as string) {
		rate, found := r.value(c.name, what)
		reference, known := r.value(to, of)
		if found && known {
			r.add(c.name, as, rate/reference, "ratio")
		}
	}
	single := map[string]string{"three_logs": "log100", "three_counters": "counter"}
	for _, c := range r.limiters {
		for _, s := range []scenario{spread, denied, hot, hotDenied} {
			relate(c, s.name+"rate", "evalsha", "rate", s.name+"rate_vs_evalsha")
			relate(c, s.name+"rate", "upstash", s.name+"rate", s.name+"rate_vs_upstash")
			if one, found := single[c.name]; found {
				relate(c, s.name+"rate", one, s.name+"rate", s.name+"rate_vs_one")
			}
		}
	}
}

// quantile returns the value below which the share q of the values lies, 0 when there are
// none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
