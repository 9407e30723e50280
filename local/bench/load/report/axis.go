package report

import (
	"fmt"
	"math"
)

// Axis is a scale with the marks on it.
type Axis struct {
	Least, Most float64
	Log         bool // equal factors are equally far apart; Least is above 0
	Marks       []Mark
}

// Mark is a place on an axis.
type Mark struct {
	At   float64
	Text string
}

// part is where a value lies on the axis, from 0 to 1.
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

// left and bottom place a mark's text.
func (a Axis) left(m Mark) string { return fmt.Sprintf("left:%.2f%%", 100*a.part(m.At)) }

func (a Axis) bottom(m Mark) string { return fmt.Sprintf("bottom:%.2f%%", 100*a.part(m.At)) }

// Linear is an axis from 0 with a mark at each round step, up to a mark above the highest
// value.
func Linear(highest float64, text func(float64) string) Axis {
	const steps = 4
	step := roundUp(max(highest, 1e-9) / steps)
	a := Axis{Most: step * math.Ceil(max(highest, 1e-9)/step*(1-1e-9))}
	for i := 0; float64(i)*step <= a.Most*(1+1e-9); i++ {
		a.Marks = append(a.Marks, Mark{float64(i) * step, text(float64(i) * step)})
	}
	return a
}

// Until is a Linear axis that ends with the highest value, whether or not there is a
// mark.
func Until(highest float64, text func(float64) string) Axis {
	a := Linear(highest, text)
	a.Most = highest
	for len(a.Marks) > 1 && a.Marks[len(a.Marks)-1].At > highest*(1+1e-9) {
		a.Marks = a.Marks[:len(a.Marks)-1]
	}
	return a
}

// roundUp returns 1, 2 or 5 times a power of ten.
func roundUp(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}

// Decades is a logarithmic axis with a mark at each power of ten around the values.
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
