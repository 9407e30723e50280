package main

import (
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
	built.Small(t, "tidegate/functions/forward", maxBinary, maxZip)
}
