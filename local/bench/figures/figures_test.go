package figures_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/local/bench/figures"
)

// Put replaces the figures of one benchmark and keeps those of the others.
func TestPut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	for _, put := range []struct {
		prefix  string
		figures []figures.Figure
	}{
		{"check.", []figures.Figure{{Name: "check.a", Value: 1, Unit: "ms"}}},
		{"scale.", []figures.Figure{{Name: "scale.a", Value: 2, Unit: "bytes"},
			{Name: "scale.b", Value: 3, Unit: "bytes"}}},
		{"scale.", []figures.Figure{{Name: "scale.b", Value: 4, Unit: "bytes"}}},
	} {
		if err := figures.Put(file, put.prefix, put.figures); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "name": "check.a",
    "value": 1,
    "unit": "ms"
  },
  {
    "name": "scale.b",
    "value": 4,
    "unit": "bytes"
  }
]
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := figures.Put(file, "scale.", nil); err == nil {
		t.Error("got no error for a file that is not a list of figures")
	}
}

// A goal is a bound from above or from below.
func TestPrint(t *testing.T) {
	goals := figures.Goals{"mo*": {Bound: 2}, "least": {Bound: 2, Minimum: true}}
	var out strings.Builder
	figures.Print(&out, "A table", []figures.Figure{figures.Of("most", 1, "ms"), figures.Of("most", 3, "ms"),
		figures.Of("least", 1, "ratio"), figures.Of("least", 3, "ratio"), figures.Of("other", 9, "µs")},
		goals)
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"", "A table measured goal", "most 1 ms ≤ 2 met", "most 3 ms ≤ 2 missed",
		"least 1 ratio ≥ 2 missed", "least 3 ratio ≥ 2 met", "other 9 µs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Repeat returns the median of each figure.
func TestRepeat(t *testing.T) {
	turns := []float64{5, 1, 3}
	got, err := figures.Repeat(len(turns), func() ([]figures.Figure, error) {
		x := turns[0]
		turns = turns[1:]
		return []figures.Figure{figures.Of("a", x, "ms"), figures.Of("b", -x, "µs")}, nil
	})
	want := []figures.Figure{figures.Of("a", 3, "ms"), figures.Of("b", -3, "µs")}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
