//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// write prints the result, and writes the files that were asked for.
func (r *result) write(o options, out io.Writer) error {
	r.print(out)
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, append(text, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("-json: %w", err)
		}
	}
	if o.report == "" {
		return nil
	}
	if err := r.writeReport(o.report); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return nil
}

func (r *result) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\n%s: %s\n", r.Scenario, r.summary())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "\nlatency\tp50\tp90\tp99\tp99.9\tmax\t")
	for _, row := range []struct {
		name string
		q    quantiles
	}{{"from when calls were due", r.Latency}, {"from when they were sent", r.Service}} {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", row.name, msOf(row.q.P50), msOf(row.q.P90),
			msOf(row.q.P99), msOf(row.q.P999), msOf(row.q.Max))
	}
	_, _ = fmt.Fprintln(t, "\nrolling windows\tcallers\tadmitted\tfullest\tat most\tlimit\tabove it\t")
	for _, w := range r.Proof.Windows {
		_, _ = fmt.Fprintf(t, "%s, %s\t%d\t%s\t%d\t%d\t%d\t%d\t\n",
			w.Plan, w.Limit, w.Callers, thousands(w.Admitted), w.Most, w.Possible, w.Requests, w.Over+w.Early)
	}
	_ = t.Flush()
	_, _ = fmt.Fprintf(out, "\n%s\n", r.verdict())
}

// summary describes the load in a sentence.
func (r *result) summary() string {
	of := ""
	if r.Capacity > 0 {
		of = fmt.Sprintf(" (%.0f%% of the %.0f that the calibration found)",
			100*r.Rate/r.Capacity, r.Capacity)
	}
	stopped := ""
	if r.Interrupted {
		stopped = ", stopped before its time"
	}
	return fmt.Sprintf("%.0f calls a second for %s%s%s; %s calls: %s; unexpected %s, never sent %s",
		r.Rate, time.Duration(r.Duration*float64(time.Second)), of, stopped, thousands(r.Calls), r.statuses(),
		thousands(r.Unexpected),
		thousands(int(r.Unsent)))
}

func (r *result) statuses() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "no answer"
		}
		parts = append(parts, fmt.Sprintf("%s %s", name, thousands(r.Statuses[status])))
	}
	return strings.Join(parts, ", ")
}

// verdict says in a few sentences what the answers prove.
func (r *result) verdict() string {
	var over, early, held int
	for _, w := range r.Proof.Windows {
		over, early, held = over+w.Over, early+w.Early, held+w.Callers
	}
	sentences := []string{fmt.Sprintf(
		"No rolling window held more than its limit: %s limits of callers, by %s admissions.",
		thousands(held), thousands(r.Kinds[admitted.String()]))}
	switch {
	case over > 0:
		sentences[0] = fmt.Sprintf("BROKEN: %d of %d limits of callers had a rolling window above the limit.",
			over, held)
	case held == 0:
		sentences[0] = "Nothing is known of the limits: -limit states them."
	}
	for _, s := range []struct {
		n    int
		text string
	}{
		{early, "BROKEN: %s calls were admitted above what an edit had set."},
		{r.Proof.Unfounded, "BROKEN: %s calls were denied though every limit had room."},
		{r.Unexpected, "%s answers were not expected."},
		{r.Edits, "Limits were edited %s times meanwhile."},
	} {
		if s.n > 0 {
			sentences = append(sentences, fmt.Sprintf(s.text, thousands(s.n)))
		}
	}
	return strings.Join(sentences, " ")
}

func msOf(millis float64) string { return ms(time.Duration(millis * float64(time.Millisecond))) }
