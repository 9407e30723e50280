package form

import (
	"slices"
	"testing"
)

func TestSplitList(t *testing.T) {
	for text, want := range map[string][]ListItem{
		"":                 nil,
		" , ;\n":           nil,
		"1, 2x3,4 x 5;6×2": {{"1", 1}, {"2", 3}, {"4", 5}, {"6", 2}},
		"1.5s x3\n2h":      {{"1.5s", 3}, {"2h", 1}},
		"7 x0":             {{"7", 0}},
	} {
		if got, invalid := splitList(text); invalid != "" || !slices.Equal(got, want) {
			t.Errorf("%q: got %v and invalid item %q, want %v", text, got, invalid, want)
		}
	}
	for _, text := range []string{"1 2", "1x12345 y", "x 3 x"} {
		if got, invalid := splitList(text); invalid == "" {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
