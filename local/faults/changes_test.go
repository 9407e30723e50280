//go:build unix

package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/registrytest"
)

// quota is the number of calls that a caller of TestChangesWhileSlotsMove may make a day.
// burst makes it spend them slowly.
const quota, burst = 20, "5 per second"

// quotas are lists of limits that read one log, so each knows the calls that were counted
// under the others.
var quotas = [][]limits.Limit{
	registrytest.Limits(burst, "20 per day, denied calls count", "20 per day"),
	registrytest.Limits(burst, "20 per 2 days"),
	registrytest.Limits("4 per second", "20 per day", "20 per day, counter"),
	registrytest.Limits(burst, "20 per hour", "100 per 30 days"),
	registrytest.Limits("5 per second, shadow", burst, "20 per day, fixed window", "20 per 12 hours"),
}

// between is a time of a load.
type between struct{ from, to time.Duration }

// holds reports whether a call began and ended in one of several times.
func holds(times []between, o outcome) bool {
	return slices.ContainsFunc(times, func(b between) bool { return o.start >= b.from && o.end <= b.to })
}

// spent fails the test if Valkey admitted a call at one of the times limited, although the
// caller had spent its quota by calls at the times counting. It returns the number of calls
// that Valkey admitted at any time.
func spent(t *testing.T, outcomes []outcome, caller int, limited, counting []between) (admitted int) {
	t.Helper()
	var ends []time.Duration // of the calls that count
	for _, o := range outcomes {
		if o.caller != caller || !o.counted() {
			continue
		}
		admitted++
		before := 0
		for _, end := range ends {
			if end <= o.start {
				before++
			}
		}
		if holds(limited, o) && before >= quota {
			t.Errorf("caller %d: got a call admitted at %s after %d others, want at most %d", caller,
				o.start, before, quota)
		}
		if holds(counting, o) {
			ends = append(ends, o.end)
		}
	}
	return admitted
}

// Plans change their limits, keys their overrides and their plans, while slots move and two
// environments decide. No caller gets more calls than a quota that was in force all along,
// or counted all along, or came back.
func TestChangesWhileSlotsMove(t *testing.T) {
	skipUnlessFaults(t)
	w := cluster(t)
	gold, slow := registrytest.Limits(burst, "20 per day"), registrytest.Limits("2 per second")
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "edited", Limits: quotas[0]}, {Name: "gold", Limits: gold},
			{Name: "silver", Limits: slow}}
	})
	f := startFleet(t, w.url, fleetOptions{environments: 2, timeout: calm,
		env: map[string]string{"DENY_CACHE": "0s"}})
	// One third is of an edited plan, one third gets overrides, one third changes its plan.
	callers := w.callers(t, 12, "edited", "gold", "gold")
	l := &load{fleet: f, callers: callers, rate: 300, workers: 2}
	l.begin(t)
	times := make([][]between, len(callers)) // of gold without an override
	since := make([]time.Duration, len(callers))
	const changes = 32
	for i := range changes {
		during(t, 300*time.Millisecond)
		w.save(t, func(s *policy.Set) { s.Plans[0].Limits = quotas[i%len(quotas)] })
		moveSlot(t, w, keyspace.BucketOf(callers[i%len(callers)].key.ID).Records())
		agreed(t, w)
		for c := range callers {
			if c%3 == 0 {
				continue
			}
			if i%2 == 0 {
				times[c] = append(times[c], between{since[c], l.now()})
			}
			w.change(t, callers[c].key.ID, func(k *policy.Key) {
				switch {
				case c%3 == 2:
					k.Plan = []string{"silver", "gold"}[i%2]
				case i%2 == 0:
					k.Override = &policy.Override{Limits: slow, Reason: "a test"}
				default:
					k.Override = nil
				}
			})
			since[c] = l.now()
		}
	}
	during(t, time.Second)
	outcomes := l.end()
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	ever := []between{{0, time.Hour}}
	var most [3]int
	for c := range callers {
		gold := slices.Concat(times[c], []between{{since[c], time.Hour}})
		limited, counting := [][]between{ever, gold, gold}, [][]between{ever, ever, gold}
		admitted := spent(t, outcomes, c, limited[c%3], counting[c%3])
		if admitted < quota {
			t.Errorf("caller %d: got %d calls admitted, want at least %d", c, admitted, quota)
		}
		most[c%3] = max(most[c%3], admitted)
	}
	report(t, "changes while slots move", "no more calls than the quota that counted them", fmt.Sprintf(
		"%d edits, overrides and changes of plan, %[1]d slots moved: %s; at most %d calls of %d admitted "+
			"by an edited plan, %d beside overrides, %d beside another plan", changes, all, most[0], quota,
		most[1], most[2]))
}

// change edits a key.
func (w *world) change(t *testing.T, id string, change func(*policy.Key)) {
	t.Helper()
	if _, err := registrytest.Update(t.Context(), w.keys, id, registry.KeyEdit, tester, change); err != nil {
		t.Fatal(err)
	}
}
