//go:build unix

package main

import (
	"time"

	"tidegate/local/bench/figures"
)

// goals are what the figures are to stay below.
var goals = map[string]float64{
	"check.coldstart_over_echo_ms": 0.5, "check.binary_mib": 9, "check.zip_mib": 4,
	"check.server_vs_evalsha": 2.2, "check.server_two_vs_evalsha": 2.8, "check.recorded_vs_evalsha": 0.4,
}

func goal(name string) (float64, bool) {
	most, found := goals[name]
	return most, found
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return figures.Millis(d) }
