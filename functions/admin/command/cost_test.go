package command

import (
	"testing"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
)

// Costs are read as they are shown, and wrong ones are refused.
func TestReadCost(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "5": "5", "0": "0", "1,000": "1,000", "500 input,  800 output": "500 input, 800 output",
		"2, 1,500 input": "2, 1,500 input", "2 cost": "2", "0 cost": "0 cost",
	} {
		var cost *policydoc.Cost
		err := readCost(text, &cost)
		var costs limits.Costs
		if cost != nil {
			costs = cost.Costs
		}
		if got := costText(costs); text != "" && got != want || err != nil || (cost == nil) != (text == "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"much", "-1", "5 input, 6 input", "5, ", "input 5"} {
		var cost *policydoc.Cost
		if readCost(text, &cost) == nil {
			t.Errorf("%q has no error", text)
		}
	}
}
