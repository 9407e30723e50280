package figures_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/local/bench/figures"
)

// What one benchmark measured takes the place of what it measured before, and nobody
// else's.
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
		t.Error("what is no list of figures was overwritten")
	}
}
