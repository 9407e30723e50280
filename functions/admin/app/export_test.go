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
