package limiter

import (
	"fmt"
	"strconv"
	"strings"
)

// Algorithm names a way of counting calls in a window. The zero value is Log.
type Algorithm uint8

// The algorithms. Their names in text (String, ParseAlgorithm) are "log", "counter",
// "token-bucket" and "fixed-window".
const (
	// Log is the exact sliding window: the time of every admitted call is kept, so no
	// rolling window ever holds more than the limit.
	Log Algorithm = iota
	// Counter estimates the sliding window from two adjacent fixed windows, weighting the
	// previous one by its overlap.
	Counter
	// TokenBucket admits a burst of Requests at once and refills evenly over the Window:
	// the generic cell rate algorithm (GCRA, ITU-T I.371), which is also the leaky bucket
	// as a meter.
	TokenBucket
	// FixedWindow counts from zero in each window, aligned to the epoch or to the
	// calendar. Twice the limit can pass around a boundary.
	FixedWindow
)

var algorithmNames = [...]string{Log: "log", Counter: "counter", TokenBucket: "token-bucket",
	FixedWindow: "fixed-window"}

// Algorithms lists every algorithm, in the order in which forms should offer them.
func Algorithms() []Algorithm { return []Algorithm{Log, Counter, TokenBucket, FixedWindow} }

// String returns the algorithm's name in configuration and forms.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// ParseAlgorithm is the inverse of String.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("algorithm %q is not one of %s", name, strings.Join(algorithmNames[:], ", "))
}
