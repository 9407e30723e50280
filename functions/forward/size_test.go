package main

import (
	"testing"

	"tidegate/internal/testing/built"
)

// The size bounds of what ./scripts/build makes, in bytes. No client waits for this
// function: the bounds only detect a new dependency.
const (
	maxBinary = 9 << 20
	maxZip    = 4 << 20
)

func TestSizeOfTheFunction(t *testing.T) {
	built.Small(t, "tidegate/functions/forward", maxBinary, maxZip)
}
