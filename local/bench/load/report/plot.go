package report

import (
	"fmt"
	"strings"
)

// Plot is lines over a common scale.
type Plot struct {
	ID, Title, Caption string
	X, Y               Axis
	Lines              []Line
}

// Line is a series: its points by X.
type Line struct {
	Class  string // how it looks: see style.css
	Title  string
	Points []Point
}

// Point is one figure.
type Point struct{ X, Y float64 }

// The box that plots are drawn in; the browser stretches it.
const (
	boxWidth  = 1000
	boxHeight = 300
)

// path draws a line's points.
func (p Plot) path(l Line) string {
	var d strings.Builder
	for i, at := range l.Points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", command, boxWidth*p.X.part(at.X), boxHeight*(1-p.Y.part(at.Y)))
	}
	if len(l.Points) == 1 { // a single point is drawn as a line across
		fmt.Fprintf(&d, "H%d", boxWidth)
	}
	return d.String()
}

// grid draws the marks of both axes.
func (p Plot) grid() string {
	var d strings.Builder
	for _, m := range p.Y.Marks {
		fmt.Fprintf(&d, "M0 %.1fH%d", boxHeight*(1-p.Y.part(m.At)), boxWidth)
	}
	for _, m := range p.X.Marks {
		fmt.Fprintf(&d, "M%.1f 0V%d", boxWidth*p.X.part(m.At), boxHeight)
	}
	return d.String()
}

func box() string { return fmt.Sprintf("0 0 %d %d", boxWidth, boxHeight) }
