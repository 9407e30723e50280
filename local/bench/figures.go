//go:build unix

package main

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

// figure is one row of bench.json.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// goals are what the figures are to stay below.
var goals = map[string]float64{"check.coldstart_over_echo_ms": 0.5, "check.binary_mib": 9, "check.zip_mib": 4}

func printFigures(out io.Writer, figures []figure) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\nThe check function\tmeasured\t\tgoal\t")
	for _, f := range figures {
		goal, verdict := "", ""
		if bound, found := goals[f.Name]; found {
			goal, verdict = fmt.Sprintf("≤ %g", bound), "met"
			if f.Value > bound {
				verdict = "missed"
			}
		}
		_, _ = fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, goal, verdict)
	}
	_ = t.Flush()
}

// addTo puts the figures into a file in place of those of their names.
func addTo(name string, figures []figure) error {
	var all []figure
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	all = slices.DeleteFunc(all, func(f figure) bool { return strings.HasPrefix(f.Name, "check.") })
	if text, err = json.MarshalIndent(append(all, figures...), "", "  "); err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// quantile sorts the times.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
