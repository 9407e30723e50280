package command

import (
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
)

// costUnit names the unit of limits without one.
const costUnit = "cost"

// costText returns costs as readCost reads them: "5", "500 input, 800 output", "0".
func costText(c limits.Costs) string {
	if text := c.String(); text != "0" || c.Free {
		return text
	}
	return "0 " + costUnit // says nothing of other units
}

// readCost reads typed costs; nil for empty text.
func readCost(text string, to **policydoc.Cost) error {
	*to = nil
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	c := &policydoc.Cost{}
	*to = c
	if text == "0" {
		c.Free = true
		return nil
	}
	c.Units = map[string]int64{}
	for part := range strings.SplitSeq(text, ", ") {
		number, unit, _ := strings.Cut(strings.TrimSpace(part), " ")
		if unit = strings.TrimSpace(unit); unit == costUnit {
			unit = limits.Cost
		}
		if _, twice := c.Units[unit]; twice {
			return wrong("Enter one number for each unit, such as 500 input, 800 output.")
		}
		n, err := whole(number)
		if err != nil || n > limits.MaxRequests {
			return wrong("Enter a number, such as 5, or 500 input, 800 output.")
		}
		c.Units[unit] = n
	}
	return nil
}
