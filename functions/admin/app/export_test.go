package app

import (
	"testing"
	"time"
)

// SetScanTime sets scanTime until the end of the test.
func SetScanTime(t *testing.T, d time.Duration) {
	t.Helper()
	before := scanTime
	scanTime = d
	t.Cleanup(func() { scanTime = before })
}

// SetMaxRead sets maxRead until the end of the test.
func SetMaxRead(t *testing.T, n int) {
	t.Helper()
	before := maxRead
	maxRead = n
	t.Cleanup(func() { maxRead = before })
}

// SetMaxStep sets maxStep until the end of the test.
func SetMaxStep(t *testing.T, n int64) {
	t.Helper()
	before := maxStep
	maxStep = n
	t.Cleanup(func() { maxStep = before })
}
