package report

import (
	"fmt"
	"math"
	"strings"
)

// Plot is a plot of lines on common axes.
type Plot struct {
	ID, Title, Caption string
	X, Y               Axis
	Lines              []Line
}

// Line is a series of points, in the order of X.
type Line struct {
	Class  string // CSS class: see style.css
	Title  string
	Points []Point
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

// The size of a plot's SVG view box, which the browser stretches.
const (
	boxWidth  = 1000
	boxHeight = 300
)

// Path returns the SVG path of a line.
func (p Plot) Path(l Line) string {
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

// Grid returns the SVG path of the marks of both axes.
func (p Plot) Grid() string {
	var d strings.Builder
	for _, m := range p.Y.Marks {
		fmt.Fprintf(&d, "M0 %.1fH%d", boxHeight*(1-p.Y.part(m.At)), boxWidth)
	}
	for _, m := range p.X.Marks {
		fmt.Fprintf(&d, "M%.1f 0V%d", boxWidth*p.X.part(m.At), boxHeight)
	}
	return d.String()
}

// Axis is a scale from Least to Most with marks.
type Axis struct {
	Least, Most float64
	Log         bool // logarithmic; Least is above 0
	Marks       []Mark
}

// Mark is a labelled value on an axis.
type Mark struct {
	At   float64
	Text string
}

// part returns the position of a value on the axis, from 0 to 1.
func (a Axis) part(v float64) float64 {
	least, most := a.Least, a.Most
	if a.Log {
		v, least, most = math.Log(max(v, least)), math.Log(least), math.Log(most)
	}
	if most == least {
		return 0
	}
	return min(max((v-least)/(most-least), 0), 1)
}

// Percent returns the position of a value on the axis, in percent of its length.
func (a Axis) Percent(v float64) string { return fmt.Sprintf("%.2f", 100*a.part(v)) }

// Linear returns an axis from 0 with a mark at each round step. It ends at the first mark
// that is not below the highest value.
func Linear(highest float64, text func(float64) string) Axis {
	const steps = 4
	step := roundUp(max(highest, 1e-9) / steps)
	a := Axis{Most: step * math.Ceil(max(highest, 1e-9)/step*(1-1e-9))}
	for i := 0; float64(i)*step <= a.Most*(1+1e-9); i++ {
		a.Marks = append(a.Marks, Mark{float64(i) * step, text(float64(i) * step)})
	}
	return a
}

// Until returns a Linear axis that ends at the highest value, with or without a mark
// there.
func Until(highest float64, text func(float64) string) Axis {
	a := Linear(highest, text)
	a.Most = highest
	for len(a.Marks) > 1 && a.Marks[len(a.Marks)-1].At > highest*(1+1e-9) {
		a.Marks = a.Marks[:len(a.Marks)-1]
	}
	return a
}

// roundUp rounds x up to 1, 2 or 5 times a power of ten.
func roundUp(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}

// Decades returns a logarithmic axis with a mark at each power of ten, from the one below
// lowest to the one above highest.
func Decades(lowest, highest float64, text func(float64) string) Axis {
	lowest = max(lowest, 1e-3)
	from, to := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(max(highest, lowest)))
	if to == from {
		to++
	}
	a := Axis{Least: math.Pow(10, from), Most: math.Pow(10, to), Log: true}
	for power := from; power <= to; power++ {
		a.Marks = append(a.Marks, Mark{math.Pow(10, power), text(math.Pow(10, power))})
	}
	return a
}
