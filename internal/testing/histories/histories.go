// Package histories sets how many random histories a test plays: a tenth of them under
// the race detector, which makes each several times as slow, and in tier 1. A few
// histories show races. Wrong results need many, and ./scripts/test -all plays them all
// without the detector.
// Only tests import this package.
package histories

import (
	"flag"
	"strconv"

	_ "pgregory.net/rapid" // registers its flag
)

// share is the percentage of histories played under the race detector and with -short.
const share = 10

func init() {
	if underRace { // rapid plays 100 by default
		if err := flag.Set("rapid.checks", strconv.Itoa(share)); err != nil {
			panic(err)
		}
	}
}

// N returns how many of all histories a test plays, at least 1.
func N(all int) int {
	if short := flag.Lookup("test.short"); underRace || short.Value.String() == "true" {
		return max(1, all*share/100)
	}
	return all
}
