package form

import "testing"

func TestSplitList(t *testing.T) {
	for text, want := range map[string][]ListItem{
		"":                 nil,
		" , ;\n":           nil,
		"1, 2x3,4 x 5;6×2": {{"1", 1}, {"2", 3}, {"4", 5}, {"6", 2}},
		"1.5s x3\n2h":      {{"1.5s", 3}, {"2h", 1}},
		"7 x0":             {{"7", 0}},
	} {
		got, odd := splitList(text)
		if odd != "" || len(got) != len(want) {
			t.Errorf("%q: %v, %q", text, got, odd)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
	}
	for _, text := range []string{"1 2", "1x12345 y", "x 3 x"} {
		if got, odd := splitList(text); odd == "" {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
