// Package figures prints the figures of benchmarks with their goals, and merges them into
// the bench.json that all benchmarks share.
package figures

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figure is a named value: one row of a table.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Of returns a figure.
func Of(name string, value float64, unit string) Figure { return Figure{name, value, unit} }

// InMillis returns a figure of d in milliseconds.
func InMillis(name string, d time.Duration) Figure { return Of(name, Millis(d), "ms") }

// InMicros returns a figure of d in microseconds.
func InMicros(name string, d time.Duration) Figure { return Of(name, Micros(d), "µs") }

// Ratio returns the figure d / to.
func Ratio(name string, d, to time.Duration) Figure { return Of(name, float64(d)/float64(to), "ratio") }

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Micros returns d in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Median sorts the values and returns the one in the middle.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Quantile sorts the values, at least one, and returns their quantile q, 0 to 1.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

// Repeat calls measure n times, at least once, and returns the median of each figure.
// measure must return the same names in the same order each time.
func Repeat(n int, measure func() ([]Figure, error)) ([]Figure, error) {
	var medians []Figure
	values := map[string][]float64{}
	for range n {
		var err error
		if medians, err = measure(); err != nil {
			return nil, err
		}
		for _, f := range medians {
			values[f.Name] = append(values[f.Name], f.Value)
		}
	}
	for i := range medians {
		medians[i].Value = Median(values[medians[i].Name])
	}
	return medians, nil
}

// Goal is the bound of a figure: a maximum, or a minimum if Minimum is true.
type Goal struct {
	Bound   float64
	Minimum bool
}

// Verdict returns "met" or "missed".
func (g Goal) Verdict(value float64) string {
	met := value <= g.Bound
	if g.Minimum {
		met = value >= g.Bound
	}
	if met {
		return "met"
	}
	return "missed"
}

// String returns the goal as "≤ 2" or "≥ 2".
func (g Goal) String() string {
	if g.Minimum {
		return fmt.Sprintf("≥ %g", g.Bound)
	}
	return fmt.Sprintf("≤ %g", g.Bound)
}

// Goals has the goals of a benchmark by the names of their figures. A name may be a
// pattern of path.Match.
type Goals map[string]Goal

// of returns the goal of a figure and whether it has one.
func (goals Goals) of(name string) (Goal, bool) {
	for pattern, goal := range goals {
		if matches, _ := path.Match(pattern, name); matches { // the patterns are constants
			return goal, true
		}
	}
	return Goal{}, false
}

// Print writes a table of the figures, with their goals if the benchmark has any.
func Print(out io.Writer, title string, figures []Figure, goals Goals) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\tmeasured\t", title)
	if goals != nil {
		_, _ = fmt.Fprint(t, "\tgoal\t")
	}
	for _, f := range figures {
		_, _ = fmt.Fprintf(t, "\n%s\t%.4g\t%s", f.Name, f.Value, f.Unit)
		if g, found := goals.of(f.Name); found {
			_, _ = fmt.Fprintf(t, "\t%s\t%s", g, g.Verdict(f.Value))
		} else if goals != nil {
			_, _ = fmt.Fprint(t, "\t\t")
		}
	}
	_, _ = fmt.Fprintln(t)
	_ = t.Flush()
}

// Report prints the figures of a benchmark. Unless file is "", it also puts them into
// file: see Put.
func Report(out io.Writer, title string, figures []Figure, goals Goals, file, prefix string) error {
	Print(out, title, figures, goals)
	if file == "" {
		return nil
	}
	return Put(file, prefix, figures)
}

// Put writes the figures to a file. They replace all its figures whose names have the
// prefix. The file need not exist.
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

// Write writes the figures, or a struct that has them, to a file as JSON.
func Write(file string, figures any) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// LoadAverage returns this machine's load average of the last minute; "" if the system
// does not report it.
func LoadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(text), " ")
	return average
}
