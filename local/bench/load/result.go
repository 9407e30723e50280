//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/local/bench/figures"
)

// result has the figures of a load, as -json writes them.
type result struct {
	Scenario    string         `json:"scenario"`
	At          time.Time      `json:"at"`
	Machine     string         `json:"machine"`
	Store       string         `json:"store,omitempty"`
	API         string         `json:"api"`
	Rate        float64        `json:"rate"` // due calls a second
	Duration    float64        `json:"duration_s"`
	Interrupted bool           `json:"interrupted"`
	Calls       int            `json:"calls"`
	Unsent      int64          `json:"unsent"` // due calls that were never sent
	Unexpected  int            `json:"unexpected"`
	Statuses    map[int16]int  `json:"statuses"` // 0 means no answer
	Kinds       map[string]int `json:"kinds"`
	Latency     percentiles    `json:"latency"` // from when calls were due
	Service     percentiles    `json:"service"` // from when they were sent
	Proof       *proof         `json:"proof"`
}

// The names of the two latencies.
const (
	fromDue  = "from when calls were due"
	fromSent = "from when calls were sent"
)

// percentiles are in milliseconds.
type percentiles struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func newResult(s *session, t *tally) *result {
	r := &result{
		Scenario: s.scenario.name, At: time.Now().UTC().Truncate(time.Second),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			runtime.Version()), API: s.api,
		Rate: s.rate, Duration: s.duration.Seconds(), Calls: len(t.outcomes), Unexpected: t.unexpected,
		Statuses: t.statuses, Kinds: named(t.counts),
		Latency: percentilesOf(t.outcomes, outcome.latency),
		Service: percentilesOf(t.outcomes, outcome.service),
		Proof:   prove(s.target.callers, slices.Concat(s.earlier, t.outcomes)),
	}
	if s.local != nil {
		r.Store = s.local.Name
	}
	return r
}

func named(counts [kinds]int) map[string]int {
	m := map[string]int{}
	for k, n := range counts {
		if n > 0 {
			m[kind(k).String()] = n
		}
	}
	return m
}

func percentilesOf(outcomes []outcome, of func(outcome) time.Duration) percentiles {
	var p percentiles
	times := quantiles(outcomes, of, 0.5, 0.9, 0.99, 0.999, 1)
	for i, field := range []*float64{&p.P50, &p.P90, &p.P99, &p.P999, &p.Max} {
		*field = figures.Millis(times[i])
	}
	return p
}

// good reports whether every answer was expected and the proof holds.
func (r *result) good() bool { return r.Unexpected == 0 && r.Proof.holds() }

// write prints the result, and writes the file of -json.
func (r *result) write(o options, out io.Writer) error {
	r.print(out)
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(o.json, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	return nil
}

func (r *result) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\n%s: %s\n", r.Scenario, r.summary())
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "\nlatency\tp50\tp90\tp99\tp99.9\tmax\t")
	for _, row := range []struct {
		name string
		q    percentiles
	}{{fromDue, r.Latency}, {fromSent, r.Service}} {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", row.name, msOf(row.q.P50), msOf(row.q.P90),
			msOf(row.q.P99), msOf(row.q.P999), msOf(row.q.Max))
	}
	_, _ = fmt.Fprintln(t, "\nrolling windows\tcallers\tadmitted\tfullest\tat most\tlimit\tabove limit\t")
	for _, w := range r.Proof.Windows {
		_, _ = fmt.Fprintf(t, "%s, %s\t%d\t%s\t%d\t%d\t%d\t%d\t\n",
			w.Plan, w.Limit, w.Callers, thousands(w.Admitted), w.Most, w.Possible, w.Requests, w.Over)
	}
	_ = t.Flush()
	_, _ = fmt.Fprintf(out, "\n%s\n", r.verdict())
}

// summary describes the load in a sentence.
func (r *result) summary() string {
	stopped := ""
	if r.Interrupted {
		stopped = ", interrupted"
	}
	return fmt.Sprintf("%g calls a second for %s%s; %s calls: %s; %s unexpected, %s never sent",
		r.Rate, time.Duration(r.Duration*float64(time.Second)), stopped, thousands(r.Calls),
		r.statuses(), thousands(r.Unexpected), thousands(int(r.Unsent)))
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

// verdict summarises the proof in a few sentences.
func (r *result) verdict() string {
	var over, held int
	for _, w := range r.Proof.Windows {
		over, held = over+w.Over, held+w.Callers
	}
	sentences := []string{fmt.Sprintf(
		"No rolling window was above its limit (%s limits of callers, %s admissions).",
		thousands(held), thousands(r.Kinds[admitted.String()]))}
	switch {
	case over > 0:
		sentences[0] = fmt.Sprintf("BROKEN: %d of %d limits of callers had a rolling window above the limit.",
			over, held)
	case held == 0:
		sentences[0] = "The limits are unknown: set -limit to check them."
	}
	for _, s := range []struct {
		n    int
		text string
	}{
		{r.Proof.Unfounded, "BROKEN: %s calls were denied although every limit had room."},
		{r.Unexpected, "%s answers were unexpected."},
	} {
		if s.n > 0 {
			sentences = append(sentences, fmt.Sprintf(s.text, thousands(s.n)))
		}
	}
	return strings.Join(sentences, " ")
}

func msOf(millis float64) string { return ms(time.Duration(millis * float64(time.Millisecond))) }
