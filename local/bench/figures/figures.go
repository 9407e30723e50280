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

func (g Goal) String() string {
	if g.Least {
		return fmt.Sprintf("≥ %g", g.Bound)
	}
	return fmt.Sprintf("≤ %g", g.Bound)
}

// Print writes a table. goal returns the goal of a figure; false if it has none.
func Print(out io.Writer, title string, figures []Figure, goal func(name string) (Goal, bool)) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\tmeasured\t\tgoal\t\n", title)
	for _, f := range figures {
		bound, verdict := "", ""
		if g, found := goal(f.Name); found {
			bound, verdict = g.String(), "missed"
			if g.met(f.Value) {
				verdict = "met"
			}
		}
		_, _ = fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, bound, verdict)
	}
	_ = t.Flush()
}

// Quantile sorts the times and returns their quantile q.
func Quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

// Millis returns a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

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
