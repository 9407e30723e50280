// Package figures prints the figures of benchmarks, merges them into the bench.json that
// all benchmarks share, and reports those that fell back behind their bounds. It also
// reads what a Valkey server reports about itself.
package figures

import (
	"cmp"
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

// Median returns the value in the middle.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Quantile returns the quantile q, 0 to 1, of at least one value.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
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

// Bound is what a figure may not exceed, or not fall below if Minimum is true. It lies so
// far from what was measured last that only a change of the code crosses it, not a busy
// machine.
type Bound struct {
	Value   float64
	Minimum bool
}

// AtMost returns a bound that a figure may not exceed.
func AtMost(value float64) Bound { return Bound{Value: value} }

// AtLeast returns a bound that a figure may not fall below.
func AtLeast(value float64) Bound { return Bound{Value: value, Minimum: true} }

func (b Bound) holds(value float64) bool {
	if b.Minimum {
		return value >= b.Value
	}
	return value <= b.Value
}

// String returns the bound as "at most 2" or "at least 2".
func (b Bound) String() string {
	if b.Minimum {
		return fmt.Sprintf("at least %g", b.Value)
	}
	return fmt.Sprintf("at most %g", b.Value)
}

// Bounds has the bounds of a benchmark by the names of their figures.
type Bounds map[string]Bound

// ErrFellBack means that figures crossed their bounds.
var ErrFellBack = errors.New("worse than before")

// Check returns an ErrFellBack that names the figures that crossed their bounds.
func (bounds Bounds) Check(figures []Figure) error {
	var crossed []string
	for _, f := range figures {
		if b, found := bounds[f.Name]; found && !b.holds(f.Value) {
			crossed = append(crossed, fmt.Sprintf("%s is %.4g, want %s", f.Name, f.Value, b))
		}
	}
	if len(crossed) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFellBack, strings.Join(crossed, "; "))
}

// Print writes a table of the figures.
func Print(out io.Writer, title string, figures []Figure) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\tmeasured\t", title)
	for _, f := range figures {
		_, _ = fmt.Fprintf(t, "\n%s\t%.4g\t%s", f.Name, f.Value, f.Unit)
	}
	_, _ = fmt.Fprintln(t)
	_ = t.Flush()
}

// Report prints the figures of a benchmark. Unless file is "", it also puts them into
// file: see Put. Then it checks the bounds.
func Report(out io.Writer, title string, figures []Figure, bounds Bounds, file, prefix string) error {
	Print(out, title, figures)
	if file != "" {
		if err := Put(file, prefix, figures); err != nil {
			return err
		}
	}
	return bounds.Check(figures)
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
