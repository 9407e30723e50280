package main

import (
	"bytes"
	"compress/flate"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A function that starts soon is a small one. The bounds are those of what ./scripts/build makes.
const (
	maxBinary = 9 << 20
	maxZip    = 4 << 20
)

func TestSizeOfTheFunction(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-ldflags=-s -w -buildid=", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(binary)
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
		t.Errorf("binary of %d bytes, packed %d: must be at most %d and %d", len(content), packed.Len(), maxBinary, maxZip)
	}
}
