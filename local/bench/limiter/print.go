package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

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
