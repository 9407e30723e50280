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

// SetStepEnds changes when a step of a job is interrupted, and returns what puts it back.
func SetStepEnds(d time.Duration) (restore func()) {
	before := stepEnds
	stepEnds = d
	return func() { stepEnds = before }
}
