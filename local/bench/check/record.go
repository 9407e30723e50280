//go:build unix

package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tidegate/local/bench/figures"
	"tidegate/local/bench/serverinfo"
)

const (
	page    = "docs/performance.md"
	picture = "docs/images/authorizers.svg"
	begin   = "<!-- authorizers:begin -->\n"
	end     = "<!-- authorizers:end -->"
)

var errNoPlace = errors.New(page + " has no comments " + strings.TrimSpace(begin) + " and " + end)

// record writes the comparisons to the page, between the comments begin and end, and
// draws the picture.
func record(repository, about string, comparisons []comparison) error {
	file := filepath.Join(repository, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errNoPlace
	}
	updated := before + begin + "\n" + about + "\n\n" + table(comparisons) + "\n" + end + after
	if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := os.WriteFile(filepath.Join(repository, picture), []byte(draw(comparisons)), 0o644); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// conditions describes the machine and the versions of the measurement.
func (b *bench) conditions(ctx context.Context, load string) (string, error) {
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("record: node: %w", err)
	}
	server, err := serverinfo.Read(ctx, b.Client, "server")
	if err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	about := fmt.Sprintf("Measured on %s: %d cores, load %s before, Node.js %s, %s, Valkey %s;\n"+
		"%d calls and %d starts of each.", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		cmp.Or(load, "unknown"), strings.TrimPrefix(strings.TrimSpace(string(node)), "v"),
		strings.Replace(runtime.Version(), "go", "Go ", 1), server.Text("valkey_version"),
		b.peerCalls, b.peerStarts())
	if n, err := strconv.ParseFloat(load, 64); err != nil || n > idle {
		about += " **To be repeated on an idle machine.**"
	}
	return about, nil
}

// idle is the maximum load that leaves a core to the authorizers.
const idle = 1.5

// aspect is a compared property: a column of the table and a panel of the picture.
type aspect struct {
	title, unit string
	of          func(measured) float64
}

var aspects = []aspect{
	{"Cold start to the first answer", "ms", func(m measured) float64 { return figures.Millis(m.cold) }},
	{"Answer, p50", "µs", func(m measured) float64 { return figures.Micros(m.p50) }},
	{"Answer, p99", "µs", func(m measured) float64 { return figures.Micros(m.p99) }},
	{"Memory after the calls", "MiB", func(m measured) float64 { return m.rss }},
	{"Package, compressed", "MiB", func(m measured) float64 { return m.size }},
}

// figure formats a number in three significant digits, but with all digits before the
// decimal point and at most two after it.
func figure(value float64) string {
	digits := 2 - int(math.Floor(math.Log10(max(value, 1e-9))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 2), value)
}

// table returns a row for each credential and authorizer, with its ratio to the check
// function.
func table(comparisons []comparison) string {
	var b strings.Builder
	b.WriteString("| credential | authorizer |")
	for _, a := range aspects {
		fmt.Fprintf(&b, " %s |", strings.ToLower(a.title[:1])+a.title[1:])
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(aspects)) + "\n")
	for _, c := range comparisons {
		for i, r := range c.rows {
			fmt.Fprintf(&b, "| %s | %s |", c.credential.title, r.name)
			for _, a := range aspects {
				ratio := ""
				if i > 0 {
					ratio = fmt.Sprintf(" (× %s)", figure(a.of(r)/a.of(c.rows[0])))
				}
				fmt.Fprintf(&b, " %s %s%s |", figure(a.of(r)), a.unit, ratio)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Sizes in the picture, in pixels.
const (
	labelWidth = 150
	barWidth   = 420
	lineHeight = 22
	panelGap   = 20
	margin     = 16
)

const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.t { font-weight: 600 } .b { fill: #8c959f } .o { fill: #0969da }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .b { fill: #6e7681 } .o { fill: #4493f8 } }
</style>
`

// draw returns an SVG with bars of cold start, p50 and memory. Each panel has its own
// scale from 0.
func draw(comparisons []comparison) string {
	var b strings.Builder
	y := margin
	for _, a := range []aspect{aspects[0], aspects[1], aspects[3]} {
		for _, c := range comparisons {
			y += lineHeight
			fmt.Fprintf(&b, `<text class="t" x="%d" y="%d">%s, %s</text>`+"\n", margin, y-6,
				html.EscapeString(a.title), html.EscapeString(c.credential.title))
			most := 0.0
			for _, r := range c.rows {
				most = max(most, a.of(r))
			}
			for i, r := range c.rows {
				width := max(barWidth*a.of(r)/most, 1)
				class := map[bool]string{true: "o", false: "b"}[i == 0]
				fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", margin, y+15, html.EscapeString(r.name))
				fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
					class, labelWidth, y+3, width, lineHeight-6)
				fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s %s</text>`+"\n", labelWidth+width+8, y+15,
					figure(a.of(r)), a.unit)
				y += lineHeight
			}
			y += panelGap
		}
	}
	width, height := labelWidth+barWidth+110, y
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="Cold start, answer and memory compared with authorizers in Go and Node.js">`+"\n",
		width, height, width, height) + style + b.String() + "</svg>\n"
}
