package tier

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

// Histories returns how many of all histories a test plays, at least 1: a tenth of them
// with -short and under the race detector, which makes each several times as slow. A few
// histories show races; wrong results need many.
func Histories(all int) int {
	if short := flag.Lookup("test.short"); underRace || short.Value.String() == "true" {
		return max(1, all*share/100)
	}
	return all
}
