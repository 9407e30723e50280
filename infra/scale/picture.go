package scale

import (
	"fmt"
	"math"
	"strings"
)

// Measures of the picture, in pixels.
const (
	pictureWidth, pictureHeight = 640, 340
	left, top, right, bottom    = 70, 20, 90, 50
)

const pictureStyle = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.g { stroke: #d1d9e0 } .l { fill: none; stroke-width: 2 }
.s1 { stroke: #0969da } .s2 { stroke: #1a7f37 } .s3 { stroke: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .g { stroke: #3d444d }
.s1 { stroke: #4493f8 } .s2 { stroke: #3fb950 } .s3 { stroke: #f0883e }
}
</style>
`

// Picture draws the rates of Growth as SVG: a line for each number of shards.
func (m *Measured) Picture() string {
	rate := func(shards, environments int) float64 {
		return m.Value(fmt.Sprintf("growth.shards%d.environments%d.rate", shards, environments))
	}
	const doublings, step = 6, 20_000.0 // 64 environments; a line of the grid
	most := step
	for shards := 1; shards <= 3; shards++ {
		for d := range doublings + 1 {
			most = max(most, math.Ceil(rate(shards, 1<<d)/step)*step)
		}
	}
	x := func(doubling int) float64 {
		return left + float64(pictureWidth-left-right)*float64(doubling)/doublings
	}
	y := func(rate float64) float64 {
		return pictureHeight - bottom - (pictureHeight-top-bottom)*rate/most
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="Checks a second from 1 to 64 environments, on 1, 2 and 3 shards">`+"\n",
		pictureWidth, pictureHeight, pictureWidth, pictureHeight)
	b.WriteString(pictureStyle)
	for value := 0.0; value <= most; value += step {
		fmt.Fprintf(&b, `<line class="g" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", left, y(value),
			pictureWidth-right, y(value))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y(value)+4,
			thousands(value))
	}
	for d := range doublings + 1 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(d),
			pictureHeight-bottom+20, 1<<d)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">environments</text>`+"\n", x(doublings/2),
		pictureHeight-8)
	for shards := 1; shards <= 3; shards++ {
		var points []string
		for d := range doublings + 1 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(d), y(rate(shards, 1<<d))))
		}
		fmt.Fprintf(&b, `<polyline class="l s%d" points="%s"/>`+"\n", shards, strings.Join(points, " "))
		// The ends of the lines lie close together, so the names stand apart, in their order.
		at := top + 18*float64(shards)
		fmt.Fprintf(&b, `<line class="l s%d" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", shards,
			pictureWidth-right+12, at-4, pictureWidth-right+28, at-4)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f">%d shard%s</text>`+"\n", pictureWidth-right+34, at, shards,
			map[bool]string{true: "", false: "s"}[shards == 1])
	}
	return b.String() + "</svg>\n"
}
