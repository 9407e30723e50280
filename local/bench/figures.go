//go:build unix

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"tidegate/local/figures"
)

type figure = figures.Figure

// goals are what the figures are to stay below.
var goals = map[string]float64{"check.coldstart_over_echo_ms": 0.5, "check.binary_mib": 9, "check.zip_mib": 4}

func printFigures(out io.Writer, all []figure) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\nThe check function\tmeasured\t\tgoal\t")
	for _, f := range all {
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

// quantile sorts the times.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
