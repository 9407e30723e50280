package policies

import (
	"strings"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/internal/limits"
)

// maxCostText exceeds the length of the costs of a route that names a few units.
const maxCostText = 400

// costUnit names the unit of limits without one.
const costUnit = "cost"

// costText returns costs as readCost reads them: "5", "500 input, 800 output", "0".
func costText(c limits.Costs) string {
	if text := c.String(); text != "0" || c.Free {
		return text
	}
	return "0 " + costUnit // says nothing of other units
}

// readCost returns the typed costs; none for empty text. It sets an error if they are
// invalid.
func readCost(in *form.Input) limits.Costs {
	text := strings.TrimSpace(in.Text)
	switch text {
	case "":
		return limits.Costs{}
	case "0":
		return limits.Costs{Free: true}
	}
	c := limits.Costs{Units: map[string]int64{}}
	for part := range strings.SplitSeq(text, ", ") {
		number, unit, _ := strings.Cut(strings.TrimSpace(part), " ")
		if unit = strings.TrimSpace(unit); unit == costUnit {
			unit = limits.Cost
		}
		if _, twice := c.Units[unit]; twice {
			in.Error = "Enter one number for each unit, such as 500 input, 800 output."
			return c
		}
		n := form.Input{Text: number}
		c.Units[unit] = n.Whole("Enter a number, such as 5, or 500 input, 800 output.", 0, limits.MaxRequests)
		if in.Error = n.Error; in.Error != "" {
			return c
		}
	}
	return c
}
