package limits

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Costs says what a call costs in each unit that it names. The zero value names none: the
// call costs what a less specific route says, or 1.
type Costs struct {
	Units map[string]int64 // 0 to MaxRequests by unit; Cost is a unit too
	Free  bool             // the cost is 0 in every unit
}

// costName is the unit Cost as a key of JSON.
const costName = "cost"

// IsZero reports whether the costs name no unit.
func (c Costs) IsZero() bool { return !c.Free && len(c.Units) == 0 }

// Of returns the cost in a unit; ok is false if the costs do not name it.
func (c Costs) Of(unit string) (cost int64, ok bool) {
	if c.Free {
		return 0, true
	}
	cost, ok = c.Units[unit]
	return cost, ok
}

// names lists the units that the costs name; a free route names Cost here.
func (c Costs) names() []string {
	if c.Free {
		return []string{Cost}
	}
	var names []string
	for unit := range c.Units {
		names = append(names, unit)
	}
	slices.Sort(names)
	return names
}

// String returns the costs in words: "5", "500 input, 800 output", "0".
func (c Costs) String() string {
	if c.Free {
		return "0"
	}
	text := ""
	for _, unit := range slices.Sorted(maps.Keys(c.Units)) {
		if text != "" {
			text += ", "
		}
		text += Number(c.Units[unit])
		if unit != Cost {
			text += " " + unit
		}
	}
	return text
}

// MarshalJSON encodes a cost without units as a number, others as an object.
func (c Costs) MarshalJSON() ([]byte, error) {
	if c.Free {
		return []byte("0"), nil
	}
	if cost, ok := c.Units[Cost]; ok && len(c.Units) == 1 && cost != 0 {
		return strconv.AppendInt(nil, cost, 10), nil
	}
	named := map[string]int64{}
	for unit, cost := range c.Units {
		if unit == Cost {
			unit = costName
		}
		named[unit] = cost
	}
	return json.Marshal(named)
}

// UnmarshalJSON decodes a number or an object.
func (c *Costs) UnmarshalJSON(data []byte) error {
	*c = Costs{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		var named map[string]*int64
		if err := json.Unmarshal(data, &named); err != nil {
			return err
		}
		for unit, cost := range named {
			switch {
			case unit == "":
				return FieldError{costName, "has a unit without a name: write cost, or the unit's name"}
			case cost == nil:
				return FieldError{costName + "." + unit, "is null: write a number, or leave it out"}
			case unit == costName:
				unit = Cost
			}
			setUnit(c, unit, *cost)
		}
		return nil
	}
	if string(data) == "null" {
		return FieldError{costName, "is null: write a number, or leave it out"}
	}
	var cost int64
	if err := json.Unmarshal(data, &cost); err != nil {
		return err
	}
	if c.Free = cost == 0; !c.Free {
		setUnit(c, Cost, cost)
	}
	return nil
}

func setUnit(c *Costs, unit string, cost int64) {
	if c.Units == nil {
		c.Units = map[string]int64{}
	}
	c.Units[unit] = cost
}

// Errors returns what is wrong with costs; field is their place.
func (c Costs) Errors(field string) []FieldError {
	var errs []FieldError
	if len(c.Units) > MaxUnits {
		errs = append(errs, FieldError{field,
			fmt.Sprintf("names %d units: must be at most %d", len(c.Units), MaxUnits)})
	}
	for _, unit := range slices.Sorted(maps.Keys(c.Units)) {
		at := field
		if unit != Cost {
			at += "." + unit
			if unit == Calls {
				errs = append(errs, FieldError{at, "is always 1: leave it out"})
			} else if problem := UnitProblem(unit); problem != "" {
				errs = append(errs, FieldError{at, problem})
			}
		}
		if cost := c.Units[unit]; cost < 0 || cost > MaxRequests {
			errs = append(errs, FieldError{at,
				fmt.Sprintf("is %d: must be 0 to %s", cost, Number(MaxRequests))})
		}
	}
	return errs
}
