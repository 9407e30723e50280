package main

import (
	"bytes"
	"compress/flate"
	"os"
	"testing"

	"tidegate/internal/testing/built"
)

// The bounds are those of what ./scripts/build makes. Nobody waits for this function, so
// they only notice a dependency that comes along.
const (
	maxBinary = 9 << 20
	maxZip    = 4 << 20
)

func TestSizeOfTheFunction(t *testing.T) {
	content, err := os.ReadFile(built.Program(t, "tidegate/functions/forward"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("binary %.2f MiB, packed %.2f MiB", float64(len(content))/(1<<20), float64(packed.Len())/(1<<20))
	if len(content) > maxBinary || packed.Len() > maxZip {
		t.Errorf("binary of %d bytes, packed %d: must be at most %d and %d", len(content), packed.Len(),
			maxBinary, maxZip)
	}
}
