package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/local/bench/figures"
)

// report has the figures of a measurement.
type report struct {
	*measurement
	figures []figures.Figure
	// values has the figures by name, and three columns of the table that are not
	// figures: subjects is the number of subjects; rate_spread is half the distance
	// between the quartiles of a rate, in percent of the rate; busy is the fraction of
	// the time in which the server's process worked.
	values    map[string]float64
	pingRate  float64 // median of the probes, in PINGs per second
	disturbed int     // number of turns left out of the medians
}

// A turn was disturbed if the rate of the probe before or after it was less than minPings
// of the median, or if the server's process worked less than minBusy of the time.
const (
	minPings = 0.85
	minBusy  = 0.9
)

func summarize(m *measurement) *report {
	r := &report{measurement: m, values: map[string]float64{}, pingRate: figures.Quantile(m.probes, 0.5)}
	for _, c := range m.limiters {
		for _, s := range scenarios {
			r.addRates(c, s.name)
		}
		for _, s := range scenarios {
			r.addTrips(c, s.name)
		}
		if bytes, found := m.bytes[c]; found {
			r.add(c.name, "bytes", math.Round(bytes), "bytes")
		}
		r.values["limiter."+c.name+".subjects"] = float64(c.keys)
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
	return min(r.probes[probe], r.probes[probe+1]) < minPings*r.pingRate
}

// undisturbed returns the turns that were not disturbed, or all turns if every turn was
// disturbed. leftOut is the number of disturbed turns.
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
		return r.slowAt(s.probe) || s.rate*s.processor/1e6 < minBusy
	})
	r.disturbed += leftOut
	var rates, commands, processors []float64
	for _, s := range turns {
		rates, commands, processors = append(rates, s.rate), append(commands, s.command),
			append(processors, s.processor)
	}
	rate, processor := figures.Quantile(rates, 0.5), figures.Quantile(processors, 0.5)
	r.add(c.name, scenario+"rate", math.Round(rate), "1/s")
	r.add(c.name, scenario+"cpu_us", figures.Quantile(commands, 0.5), "us")
	r.add(c.name, scenario+"process_us", processor, "us")
	prefix := "limiter." + c.name + "." + scenario
	quartiles := figures.Quantile(rates, 0.75) - figures.Quantile(rates, 0.25)
	r.values[prefix+"rate_spread"] = 100 * quartiles / 2 / rate
	r.values[prefix+"busy"] = rate * processor / 1e6
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
	var calls, pings []float64
	for _, t := range turns {
		calls, pings = appendMicros(calls, t.calls), appendMicros(pings, t.pings)
	}
	for _, percent := range []int{50, 99} {
		q, name := float64(percent)/100, fmt.Sprintf("%sp%d", scenario, percent)
		took := figures.Quantile(calls, q)
		r.add(c.name, name+"_us", took, "us")
		r.add(c.name, name+"_vs_ping", took/figures.Quantile(pings, q), "ratio")
	}
}

func appendMicros(values []float64, durations []time.Duration) []float64 {
	for _, d := range durations {
		values = append(values, figures.Micros(d))
	}
	return values
}

// addRatios adds the ratios of each rate to the rates of evalsha and upstash. It also
// adds the ratios of the rate with three limits to the rate with one.
func (r *report) addRatios() {
	relate := func(c *measuredLimiter, what, to, of, as string) {
		rate, found := r.value(c.name, what)
		reference, known := r.value(to, of)
		if found && known {
			r.add(c.name, as, rate/reference, "ratio")
		}
	}
	for _, c := range r.limiters {
		for _, s := range scenarios {
			relate(c, s.name+"rate", "evalsha", "rate", s.name+"rate_vs_evalsha")
			relate(c, s.name+"rate", "upstash", s.name+"rate", s.name+"rate_vs_upstash")
			if c.name == "three_logs" {
				relate(c, s.name+"rate", "log100", s.name+"rate", s.name+"rate_vs_one")
			}
		}
	}
}

func (r *report) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\nValkey %s (%s), %d rounds, windows of %v\n",
		r.version, strings.Join(r.server, " "), r.repeats, r.window.Round(time.Second))
	_, _ = fmt.Fprintf(out, "PING %.0f/s; medians leave out %d of %d turns, which were disturbed\n\n",
		r.pingRate, r.disturbed, len(r.slices)+len(r.trips))
	notes := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.limiters {
		_, _ = fmt.Fprintf(notes, "%s\t%s\n", c.name, c.note)
	}
	_ = notes.Flush()
	const rates = "Saturated server: checks per second over %d connections with %d in flight each. busy: " +
		"fraction of the time that the server works; E: evalsha"
	r.printColumns(out, fmt.Sprintf(rates, connections, depth), rateColumns)
	r.printColumns(out, "Server time per check (µs): commands alone and whole process. One call in flight: "+
		"time (µs), and relative to PING by the same client", costColumns)
}

// column is a column of a table: its head, the figure's name after "limiter.NAME.", and
// the format of the value.
type column struct{ head, what, format string }

var rateColumns = []column{
	{"subjects", "subjects", "%.0f"},
	{"allowed/s", "rate", "%.0f"}, {"±", "rate_spread", "%.0f%%"},
	{"busy", "busy", "%.2f"}, // far below 1, the client is the bottleneck
	{"×E", "rate_vs_evalsha", "%.3f"}, {"×Upstash", "rate_vs_upstash", "%.2f"},
	{"denied/s", "denied_rate", "%.0f"}, {"×E", "denied_rate_vs_evalsha", "%.3f"},
}

var costColumns = []column{
	{"allowed", "cpu_us", "%.2f"}, {"process", "process_us", "%.2f"},
	{"denied", "denied_cpu_us", "%.2f"}, {"process", "denied_process_us", "%.2f"},
	{"p50", "p50_us", "%.0f"}, {"÷PING", "p50_vs_ping", "%.2f"},
	{"p99", "p99_us", "%.0f"}, {"÷PING", "p99_vs_ping", "%.2f"},
	{"denied p50", "denied_p50_us", "%.0f"}, {"÷PING", "denied_p50_vs_ping", "%.2f"},
	{"allocations", "allocs", "%.0f"}, {"bytes per key", "bytes", "%.0f"},
}

// printColumns prints a table with a row for each limiter. A figure that was not measured
// is "-".
func (r *report) printColumns(out io.Writer, title string, columns []column) {
	head := []string{""}
	for _, c := range columns {
		head = append(head, c.head)
	}
	t := table(out, title, head...)
	for _, l := range r.limiters {
		cells := []string{l.name}
		for _, c := range columns {
			cell := "-"
			if v, found := r.value(l.name, c.what); found {
				cell = fmt.Sprintf(c.format, v)
			}
			cells = append(cells, cell)
		}
		row(t, cells...)
	}
	_ = t.Flush()
}

func table(out io.Writer, title string, head ...string) *tabwriter.Writer {
	_, _ = fmt.Fprintf(out, "\n%s\n", title)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, head...)
	return t
}

func row(t *tabwriter.Writer, cells ...string) {
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
}

// bounds has the bounds of our limiter's figures.
var bounds = figures.Bounds{
	"limiter.log100.rate_vs_evalsha":         figures.AtLeast(0.20),
	"limiter.log100.denied_rate_vs_evalsha":  figures.AtLeast(0.23),
	"limiter.counter.rate_vs_evalsha":        figures.AtLeast(0.24),
	"limiter.counter.denied_rate_vs_evalsha": figures.AtLeast(0.26),
	"limiter.log100.rate_vs_upstash":         figures.AtLeast(0.7),
	"limiter.three_logs.rate_vs_one":         figures.AtLeast(0.45),
	"limiter.log100.p50_vs_ping":             figures.AtMost(1.3),
	"limiter.counter.p50_vs_ping":            figures.AtMost(1.3),
	"limiter.log100.allocs":                  figures.AtMost(5),
	"limiter.counter.allocs":                 figures.AtMost(5),
	"limiter.log100.bytes":                   figures.AtMost(640),
	"limiter.counter.bytes":                  figures.AtMost(128),
	"limiter.log10000.bytes":                 figures.AtMost(50_000),
}
