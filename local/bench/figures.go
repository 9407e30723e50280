package bench

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

// Figure is a named value of bench.json.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

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

// Report prints the figures. They also replace the figures of a file whose names have one
// of their prefixes, the part before the first dot. The file need not exist.
func Report(out io.Writer, file string, figures []Figure) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	renewed := map[string]bool{}
	for _, f := range figures {
		renewed[prefix(f)] = true
		_, _ = fmt.Fprintf(t, "%s\t%.4g\t%s\n", f.Name, f.Value, f.Unit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var all []Figure
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	all = slices.DeleteFunc(all, func(f Figure) bool { return renewed[prefix(f)] })
	if text, err = json.MarshalIndent(append(all, figures...), "", "  "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func prefix(f Figure) string {
	name, _, _ := strings.Cut(f.Name, ".")
	return name
}
