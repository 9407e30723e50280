package chart

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Data is the data of a chart, both for the script and for the SVG that it replaces.
type Data struct {
	Kind string `json:"kind"` // lines, or bars that are stacked
	// seconds since 1970; 0 for a time that is counted from the start of an experiment
	Begin  int64     `json:"begin,omitempty"`
	From   float64   `json:"from,omitempty"`  // seconds since that start
	Step   float64   `json:"step"`            // seconds between two points
	Series [][]int64 `json:"series"`          // as many points each
	Marks  []Mark    `json:"marks,omitempty"` // in time order
	// the address whose from and to a selection sets; empty if nothing can be selected
	Select string `json:"select,omitempty"`
}

// Mark is a text at an instant.
type Mark struct {
	At   int64  `json:"at"` // seconds since 1970
	Text string `json:"text"`
}

// Encode writes the data for the page.
func (c Data) Encode() string {
	text, err := json.Marshal(c)
	if err != nil { // only a step that is no number, and steps are not made by dividing by 0
		return ""
	}
	return string(text)
}

// Headroom is the top of a chart whose highest value is this.
func Headroom(most int64) int64 { return max(1, most+(most+19)/20) }

// Stairs is the SVG path of values that each hold for one unit, in a box of that height.
// What stays level is one stroke.
func Stairs(values []int64, top int64) string {
	var b strings.Builder
	for i, v := range values {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M0 %d", top-v)
		case v != values[i-1]:
			fmt.Fprintf(&b, "H%dV%d", i, top-v)
		}
	}
	fmt.Fprintf(&b, "H%d", len(values))
	return b.String()
}

// bars is the SVG path of bars that stand on others, in a box of that height.
func bars(values, below []int64, top int64) string {
	var b strings.Builder
	for i, v := range values {
		base := top
		if below != nil {
			base -= below[i]
		}
		if v > 0 {
			fmt.Fprintf(&b, "M%d %dv%dh.9v%dz", i, base, -v, v)
		}
	}
	return b.String()
}
