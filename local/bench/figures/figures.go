// Package figures prints the figures of benchmarks with their goals, and merges them into
// the bench.json that all benchmarks share.
package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figure is one row of a table.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Of returns a figure.
func Of(name string, value float64, unit string) Figure { return Figure{name, value, unit} }

// Goal is a figure's target: a maximum or a minimum.
type Goal struct {
	Bound float64
	Least bool
}

// met reports whether a value reaches the goal.
func (g Goal) met(value float64) bool {
	if g.Least {
		return value >= g.Bound
	}
	return value <= g.Bound
}

// Verdict returns "met" or "missed".
func (g Goal) Verdict(value float64) string {
	if g.met(value) {
		return "met"
	}
	return "missed"
}

func (g Goal) String() string {
	if g.Least {
		return fmt.Sprintf("≥ %g", g.Bound)
	}
	return fmt.Sprintf("≤ %g", g.Bound)
}

// Print writes a table. goal returns the goal of a figure; false if it has none. A nil
// goal is for benchmarks without goals.
func Print(out io.Writer, title string, figures []Figure, goal func(name string) (Goal, bool)) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\tmeasured\t", title)
	if goal != nil {
		_, _ = fmt.Fprint(t, "\tgoal\t")
	}
	for _, f := range figures {
		_, _ = fmt.Fprintf(t, "\n%s\t%.4g\t%s", f.Name, f.Value, f.Unit)
		if goal == nil {
			continue
		}
		_, _ = fmt.Fprint(t, "\t")
		if g, found := goal(f.Name); found {
			_, _ = fmt.Fprintf(t, "%s\t%s", g, g.Verdict(f.Value))
		} else {
			_, _ = fmt.Fprint(t, "\t")
		}
	}
	_, _ = fmt.Fprintln(t)
	_ = t.Flush()
}

// Report prints the figures of a benchmark, and puts them into a file, if it is named, in
// place of the figures there whose names have the prefix.
func Report(
	out io.Writer, title string, figures []Figure, goal func(name string) (Goal, bool), file, prefix string,
) error {
	Print(out, title, figures, goal)
	if file == "" {
		return nil
	}
	return Put(file, prefix, figures)
}

// Quantile sorts the times and returns their quantile q.
func Quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

// Millis returns a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Micros returns a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Median returns the median of what of returns for each item.
func Median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, x := range all {
		values[i] = of(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// LoadAverage returns this machine's of the last minute; "" where the system has none.
func LoadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(text), " ")
	return average
}

// Put writes the figures to a file, in place of all figures whose names have the prefix.
// The file need not exist.
func Put(file, prefix string, figures []Figure) error {
	var all []Figure
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	all = slices.DeleteFunc(all, func(f Figure) bool { return strings.HasPrefix(f.Name, prefix) })
	return Write(file, append(all, figures...))
}

// Write replaces a file by the figures.
func Write(file string, figures []Figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
