//go:build unix

package check

import (
	"fmt"
	"html"
	"strings"
)

// Measures of the picture, in pixels.
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

// draw draws bars of cold start, p50 and memory. Each panel has its own scale from 0.
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
					class,
					labelWidth, y+3, width, lineHeight-6)
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
