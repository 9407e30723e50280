package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

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

func (r *report) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\nValkey %s (%s), %d rounds, windows of %v\n",
		r.version, strings.Join(r.server, " "), r.repeats, r.window.Round(time.Second))
	_, _ = fmt.Fprintf(out, "PING %.0f/s; %d of %d turns were disturbed and are left out of the medians\n\n",
		quantile(r.probes, 0.5), r.disturbed, len(r.slices)+len(r.trips))
	r.printLimiters(out)
	r.printRates(out)
	r.printCosts(out)
	r.printGoals(out)
}

func (r *report) printLimiters(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range r.limiters {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", c.name, c.note)
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

// cell formats a figure, "-" when it was not measured.
func (r *report) cell(limiter, what, format string) string {
	v, found := r.value(limiter, what)
	if !found {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func (r *report) printRates(out io.Writer) {
	title := "Saturated: checks per second over %d connections with %d in flight each; busy is the server, " +
		"E is evalsha, hot is a single subject"
	t := table(out, fmt.Sprintf(title, connections, depth),
		"", "subjects", "allowed/s", "±", "busy", "×E", "×Upstash", "denied/s", "×E", "hot allowed/s", "×E",
		"hot denied/s", "×E")
	for _, c := range r.limiters {
		name := c.name
		row(t, name, fmt.Sprint(c.keys), r.cell(name, "rate", "%.0f"), r.spread(name), r.busy(name),
			r.cell(name, "rate_vs_evalsha", "%.3f"),
			r.cell(name, "rate_vs_upstash", "%.2f"), r.cell(name, "denied_rate", "%.0f"),
			r.cell(name, "denied_rate_vs_evalsha", "%.3f"),
			r.cell(name, "hot_rate", "%.0f"), r.cell(name, "hot_rate_vs_evalsha", "%.3f"),
			r.cell(name, "hot_denied_rate", "%.0f"), r.cell(name, "hot_denied_rate_vs_evalsha", "%.3f"))
	}
	_ = t.Flush()
}

func (r *report) spread(limiter string) string {
	spread, found := r.spreads[limiter+".rate"]
	if !found {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*spread)
}

// busy returns how much of the time the server's process worked. Far below 1 the rate is
// that of the client.
func (r *report) busy(limiter string) string {
	rate, _ := r.value(limiter, "rate")
	processor, found := r.value(limiter, "process_us")
	if !found {
		return "-"
	}
	return fmt.Sprintf("%.2f", rate*processor/1e6)
}

func (r *report) printCosts(out io.Writer) {
	t := table(out, "Server time per check (µs) of its commands and of its process; one call in flight "+
		"(µs) and relative to PING by the same client",
		"", "allowed", "process", "denied", "process", "p50", "÷PING", "p99", "÷PING", "denied p50", "÷PING",
		"allocations", "bytes per key")
	for _, c := range r.limiters {
		name := c.name
		row(t, name, r.cell(name, "cpu_us", "%.2f"), r.cell(name, "process_us", "%.2f"),
			r.cell(name, "denied_cpu_us", "%.2f"), r.cell(name, "denied_process_us", "%.2f"),
			r.cell(name, "p50_us", "%.0f"), r.cell(name, "p50_vs_ping", "%.2f"),
			r.cell(name, "p99_us", "%.0f"), r.cell(name, "p99_vs_ping", "%.2f"),
			r.cell(name, "denied_p50_us", "%.0f"), r.cell(name, "denied_p50_vs_ping", "%.2f"),
			r.cell(name, "allocs", "%.0f"), r.cell(name, "bytes", "%.0f"))
	}
	_ = t.Flush()
}

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
