// Package histories says how many random histories a test plays. A few histories show
// races, wrong answers take many, and the race detector makes each several times as slow.
// So a test plays a tenth of them under the race detector; ./scripts/test runs all tests
// without it too. Only tests import this package.
package histories

import (
	"flag"
	"strconv"

	_ "pgregory.net/rapid" // registers its flag
)

// share is how many histories are played under the race detector and with -short, of each
// hundred.
const share = 10

func init() {
	if underRace { // rapid plays 100, unless -rapid.checks says another number
		if err := flag.Set("rapid.checks", strconv.Itoa(share)); err != nil {
			panic(err)
		}
	}
}

// N returns how many of so many histories a test plays.
func N(all int) int {
	if short := flag.Lookup("test.short"); underRace || short.Value.String() == "true" {
		return max(1, all*share/100)
	}
	return all
}
