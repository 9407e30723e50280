package policy

import (
	"strings"
	"testing"
)

// Names may have what the world's scripts and emoji need, and nothing that hides or
// reverses text.
func TestTextProblem(t *testing.T) {
	for text, want := range map[string]string{
		"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645":  "", // Persian with a non-joiner
		"\U0001f468\u200d\U0001f469\u200d\U0001f467 family": "", // emoji with joiners
		"\u2764\ufe0f": "", // emoji with a variation selector
		"\U0001f3f4\U000e0067\U000e0062\U000e007f": "", // flag of tags
		"\u05d0\u05d1\u200f (1)":                   "", // Hebrew with a right-to-left mark
		strings.Repeat("\U0001f468", MaxNameLen):   "",
		strings.Repeat("\U0001f468", MaxNameLen+1): "longer than 100",
		"\u200d\u200f": "is empty",
		" ":            "is empty",
		"a\u202eb":     "U+202E, which cannot be printed: remove it",
		"a\u2066b":     "U+2066",
		"a\x00b":       "U+0000",
		"a\tb":         "U+0009",
		"a\ufeffb":     "U+FEFF",
		"a\xff":        "not UTF-8",
	} {
		if got := TextProblem(text, MaxNameLen); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Two plans or rules never have names that look the same.
func TestNameProblem(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range []struct{ name, want string }{
		{"free", ""}, {"free", "is taken"}, {"free ", "begins or ends with a space"},
		{" free", "begins or ends"}, {"free\u200b", "cannot be printed"}, {"free\u200d", "is taken"},
		{"free\u200f ", "begins or ends"}, {"Free", ""},
	} {
		if got := nameProblem(test.name, seen); got != test.want &&
			(test.want == "" || !strings.Contains(got, test.want)) {
			t.Errorf("%q: got %q, want %q", test.name, got, test.want)
		}
	}
}
