//go:build unix

package faults

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tidegate/internal/store/acl"
	"tidegate/internal/testing/valkeytest"
)

// While a serverless cache refuses every command on keys for 3 s, clients get answers and
// the environments do not storm it. Two seconds later, Valkey decides again.
func TestRefusals(t *testing.T) {
	skipUnlessFaults(t)
	const many, refused, whole = 20, 3 * time.Second, 2 * time.Second
	for _, name := range []string{"MOVED to the same endpoint", "CLUSTERDOWN", "LOADING", "READONLY"} {
		cache := valkeytest.StartServerless(t)
		text := name + " for this test"
		if strings.HasPrefix(name, "MOVED") {
			text = "MOVED 1 " + cache.Address()
		}
		w := newWorld(t, []string{cache.URL()}, "")
		w.plans(t, fmt.Sprint(allowance, " per day"))
		user := valkeytest.As(t, cache.URL(), "check", acl.Rules(acl.Check()))
		f := startFleet(t, user, fleetOptions{environments: many, timeout: calm})
		l := &load{fleet: f, callers: w.callers(t, 40, "open"), rate: 200, workers: many}
		l.begin(t)
		during(t, 2*time.Second)
		asked, made, at := cache.Asked(), cache.Connections(), l.now()
		cache.Refuse(math.MaxInt, text)
		during(t, refused)
		cache.Refuse(0, "")
		end := l.now()
		questions, connections := cache.Asked()-asked, cache.Connections()-made
		during(t, 2*whole)
		outcomes := l.end()
		tallyOf(outcomes).requireAnswered(t)
		var after []outcome
		for _, o := range outcomes {
			if o.start > end+whole {
				after = append(after, o)
			}
		}
		tallyOf(after).requireUndegraded(t)
		each := func(n int) float64 { return float64(n) / many / (end - at).Seconds() }
		// The library asks for the topology after a random pause of up to a second. The
		// circuit breakers bound how often an environment connects.
		if each(questions) > 4 || each(connections) > 20 {
			t.Errorf("%s: got %.1f questions and %.1f connections a second and environment, want at most 4 "+
				"and 20", name, each(questions), each(connections))
		}
		report(t, name+" for 3 s", "0 5xx; whole ≤ 2 s later; an environment asks ≤ 4 times a second",
			fmt.Sprintf("%d environments, %s; each asks %.1f times and connects %.1f times a second", many,
				tallyOf(outcomes), each(questions), each(connections)))
	}
}
