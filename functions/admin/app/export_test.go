package app

import (
	"testing"
	"time"
)

// SetScanTime changes how long one answer looks at keys.
func SetScanTime(t *testing.T, d time.Duration) {
	t.Helper()
	before := scanTime
	scanTime = d
	t.Cleanup(func() { scanTime = before })
}
