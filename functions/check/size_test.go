package main

import (
	"bytes"
	"compress/flate"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"tidegate/internal/testing/built"
)

// A function that starts soon is a small one. The bounds are those of what
// ./scripts/build makes.
const (
	maxBinary = 9 << 20
	maxZip    = 4 << 20
)

// maxPrepared is how many bytes one of our packages may allocate before main: what takes
// longer to put together waits until it is needed.
const maxPrepared = 16 << 10

func TestSizeOfTheFunction(t *testing.T) {
	content, err := os.ReadFile(built.Program(t, "tidegate/functions/check"))
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

var prepared = regexp.MustCompile(`(?m)^init (tidegate/\S+) .* (\d+) bytes,`)

func TestLittleIsPreparedBeforeMain(t *testing.T) {
	start := exec.CommandContext(t.Context(), built.Program(t, "tidegate/functions/check"))
	start.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := start.CombinedOutput() // it ends for want of a configuration
	found := prepared.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		t.Fatalf("no package says what it prepared:\n%s", out)
	}
	for _, match := range found {
		if n, err := strconv.Atoi(match[2]); err != nil || n > maxPrepared {
			t.Errorf("%s allocates %s bytes, want at most %d", match[1], match[2], maxPrepared)
		}
	}
}
