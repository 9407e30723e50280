package figures_test

import (
	"errors"
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

func TestPrint(t *testing.T) {
	var out strings.Builder
	figures.Print(&out, "A table",
		[]figures.Figure{figures.Of("most", 1, "ms"), figures.Of("other", 9, "µs")})
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"", "A table measured", "most 1 ms", "other 9 µs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An error names each figure that crossed its bound, and no other.
func TestBounds(t *testing.T) {
	bounds := figures.Bounds{"most": figures.AtMost(2), "least": figures.AtLeast(2)}
	kept := []figures.Figure{figures.Of("most", 2, "ms"), figures.Of("least", 2, "ratio"),
		figures.Of("other", 9, "µs")}
	if err := bounds.Check(kept); err != nil {
		t.Errorf("figures at their bounds: %v", err)
	}
	crossed := []figures.Figure{figures.Of("most", 2.5, "ms"), figures.Of("least", 1, "ratio")}
	err := bounds.Check(append(crossed, kept[2]))
	const want = "most is 2.5, want at most 2; least is 1, want at least 2"
	if !errors.Is(err, figures.ErrFellBack) || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "other") {
		t.Errorf("got %v, want %q", err, want)
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
