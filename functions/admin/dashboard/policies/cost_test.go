package policies

import (
	"testing"

	"tidegate/functions/admin/dashboard/form"
)

// Costs are read as they are shown, and wrong ones are refused.
func TestReadCost(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "5": "5", "0": "0", "1,000": "1,000", "500 input,  800 output": "500 input, 800 output",
		"2, 1,500 input": "2, 1,500 input", "2 cost": "2", "0 cost": "0 cost",
	} {
		in := form.Input{Text: text}
		if got := costText(readCost(&in)); got != want || in.Error != "" {
			t.Errorf("%q: got %q, %s, want %q", text, got, in.Error, want)
		}
	}
	for _, text := range []string{"much", "-1", "5 input, 6 input", "5, ", "input 5"} {
		in := form.Input{Text: text}
		if readCost(&in); in.Error == "" {
			t.Errorf("%q has no error", text)
		}
	}
}
