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

// SetMaxPlanKeys sets maxPlanKeys until the end of the test.
func SetMaxPlanKeys(t *testing.T, n int) {
	t.Helper()
	before := maxPlanKeys
	maxPlanKeys = n
	t.Cleanup(func() { maxPlanKeys = before })
}

// SetMaxStep sets maxStep until the end of the test.
func SetMaxStep(t *testing.T, n int64) {
	t.Helper()
	before := maxStep
	maxStep = n
	t.Cleanup(func() { maxStep = before })
}
