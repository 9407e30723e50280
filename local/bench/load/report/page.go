// Package report writes the result of a load as one HTML file with figures and SVG plots.
// The page loads no other files and has no scripts.
package report

import (
	_ "embed" // the page and its style
	"fmt"
	"html/template"
	"io"
)

// Page has the values of the report, all of them formatted.
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

// Window is a row of the table of rolling windows.
type Window struct {
	Limit                                      string
	Callers, Admitted, Fullest, Possible, Most string
	Above                                      string
	Broken                                     bool
}

var (
	//go:embed page.html
	page string
	//go:embed style.css
	style string

	document = template.Must(template.New("page").Funcs(template.FuncMap{
		"box": func() string { return fmt.Sprintf("0 0 %d %d", boxWidth, boxHeight) },
		"css": func() template.CSS { return template.CSS(style) }, //nolint:gosec // a constant
	}).Parse(page))
)

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	if err := document.Execute(w, p); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
