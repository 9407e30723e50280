package main

import (
	"math"
	"slices"
	"time"
)

// figure is one result, as bench.json lists it.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// report is what a measurement comes to.
type report struct {
	*measurement
	figures   []figure
	values    map[string]float64
	spreads   map[string]float64 // of a rate: half the distance between its quartiles, relative to it
	disturbed int                // turns during which the machine was slow, left out of the medians
}

// A turn is disturbed when the PINGs before or after it were this much slower than usual.
const slow = 0.85

func summarize(m *measurement) *report {
	r := &report{measurement: m, values: map[string]float64{}, spreads: map[string]float64{}}
	for i := range len(m.probes) - 1 {
		if r.slowAt(i) {
			r.disturbed++
		}
	}
	for _, c := range m.contenders {
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

func (r *report) add(contender, what string, value float64, unit string) {
	name := "limiter." + contender + "." + what
	value = math.Round(value*1e4) / 1e4
	r.figures = append(r.figures, figure{name, value, unit})
	r.values[name] = value
}

// value returns a figure of a contender.
func (r *report) value(contender, what string) (float64, bool) {
	v, found := r.values["limiter."+contender+"."+what]
	return v, found
}

// slowAt tells whether the probe before a turn or the one after it was slow.
func (r *report) slowAt(probe int) bool {
	usual := quantile(r.probes, 0.5)
	return min(r.probes[probe], r.probes[probe+1]) < slow*usual
}

func (r *report) addRates(c *contender, scenario string) {
	var rates, commands, processors []float64
	for _, disturbed := range []bool{false, true} { // The disturbed ones count when there are no others.
		for _, s := range r.slices {
			if s.contender == c && s.scenario == scenario && r.slowAt(s.probe) == disturbed {
				rates, commands, processors = append(rates, s.rate), append(commands, s.command), append(processors, s.processor)
			}
		}
		if len(rates) > 0 {
			break
		}
	}
	if len(rates) == 0 {
		return
	}
	rate := quantile(rates, 0.5)
	r.add(c.name, scenario+"rate", math.Round(rate), "1/s")
	r.add(c.name, scenario+"cpu_us", quantile(commands, 0.5), "us")
	r.add(c.name, scenario+"process_us", quantile(processors, 0.5), "us")
	r.spreads[c.name+"."+scenario+"rate"] = (quantile(rates, 0.75) - quantile(rates, 0.25)) / 2 / rate
}

func (r *report) addTrips(c *contender, scenario string) {
	var calls, pings, commands []float64
	for _, disturbed := range []bool{false, true} {
		for _, t := range r.trips {
			if t.contender == c && t.scenario == scenario && r.slowAt(t.probe) == disturbed {
				calls, pings = appendMicros(calls, t.calls), appendMicros(pings, t.pings)
				commands = append(commands, t.command)
			}
		}
		if len(calls) > 0 {
			break
		}
	}
	if len(calls) == 0 {
		return
	}
	for _, p := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		r.add(c.name, scenario+p.name+"_us", quantile(calls, p.q), "us")
		r.add(c.name, scenario+p.name+"_vs_ping", quantile(calls, p.q)/quantile(pings, p.q), "ratio")
	}
	if _, saturated := r.value(c.name, scenario+"cpu_us"); !saturated {
		r.add(c.name, scenario+"cpu_us", quantile(commands, 0.5), "us")
	}
}

func appendMicros(values []float64, durations []time.Duration) []float64 {
	for _, d := range durations {
		values = append(values, micros(d))
	}
	return values
}

// addRatios relates each rate to that of the trivial script, of Upstash's algorithm and, of three limits, to that of one.
func (r *report) addRatios() {
	relate := func(c *contender, what, to, of, as string) {
		rate, found := r.value(c.name, what)
		reference, known := r.value(to, of)
		if found && known {
			r.add(c.name, as, rate/reference, "ratio")
		}
	}
	single := map[string]string{"three_logs": "log100", "three_counters": "counter"}
	for _, c := range r.contenders {
		for _, s := range []scenario{spread, denied, hot, hotDenied} {
			relate(c, s.name+"rate", "evalsha", "rate", s.name+"rate_vs_evalsha")
			relate(c, s.name+"rate", "upstash", s.name+"rate", s.name+"rate_vs_upstash")
			if one, found := single[c.name]; found {
				relate(c, s.name+"rate", one, s.name+"rate", s.name+"rate_vs_one")
			}
		}
	}
}

// quantile returns the value below which the share q of the values lies, 0 when there are none.
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
