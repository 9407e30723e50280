// Package report is a load's result as one HTML file: figures, and plots as SVG drawn
// here. It loads nothing and runs no script.
package report

import (
	"context"
	_ "embed" // the style
	"fmt"
	"io"
)

// Page is what the report shows. All values are formatted.
type Page struct {
	Title     string
	Summary   string
	Verdict   string
	Good      bool
	Facts     []Fact
	Latencies []Latency
	Windows   []Window
	Plots     []Plot
}

// Fact is a name and its value.
type Fact struct{ Name, Value string }

// Latency is a row of quantiles.
type Latency struct{ Name, P50, P90, P99, P999, Max string }

// Window is how full the rolling windows of a limit were.
type Window struct {
	Limit                                      string
	Callers, Admitted, Fullest, Possible, Most string
	Above                                      string
	Broken                                     bool
}

//go:embed style.css
var style string

func css() string { return "<style>\n" + style + "</style>" }

// Write writes the page.
func (p Page) Write(ctx context.Context, w io.Writer) error {
	if err := document(p).Render(ctx, w); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
