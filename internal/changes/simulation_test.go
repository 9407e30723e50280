package changes

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"tidegate/internal/testing/tier"
)

var (
	seedFlag = flag.Uint64("seed", 0, "replay the history of this seed; 0 plays many")
	fromFlag = flag.Uint64("from", 0, "play the seeds after this one")
)

// steps is the length of a history, in messages.
const steps = 1500

// histories plays many histories, on all processors.
func histories(t *testing.T, count int, mode string) {
	t.Helper()
	if *seedFlag > 0 {
		if faults := newWorld(*seedFlag, mode).play(steps); len(faults) > 0 {
			t.Fatalf("seed %d: %q", *seedFlag, faults)
		}
		return
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	total := map[string]int{}
	next, failed := *fromFlag, 0
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				mu.Lock()
				next++
				seed := next
				stop := seed > *fromFlag+uint64(count) || failed > 0
				mu.Unlock()
				if stop {
					return
				}
				w := newWorld(seed, mode)
				faults := w.play(steps)
				mu.Lock()
				for k, v := range w.stats {
					total[k] += v
				}
				if len(faults) > 0 {
					failed++
					t.Errorf("seed %d: %s", seed, faults[0])
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	var text string
	for _, k := range slices.Sorted(maps.Keys(total)) {
		text += fmt.Sprintf(" %s %d", k, total[k])
	}
	t.Logf("%d histories:%s", count, text)
}

// Whatever fails, nothing that was acknowledged is lost, and the view is the log.
func TestSimulation(t *testing.T) { histories(t, tier.Histories(2000), "") }

// The log is replaced by an older or by another one: edits are refused until a hand takes
// the log over, and nothing that is acknowledged afterwards is missing from it.
func TestSimulationOfAnotherLog(t *testing.T) { histories(t, tier.Histories(500), "replace") }

// An object of the log is removed: nobody gives its number again, and a hand brings it
// back or says that it is nothing.
func TestSimulationOfAHole(t *testing.T) { histories(t, tier.Histories(500), "hole") }

// An object of the log is damaged: as a hole.
func TestSimulationOfDamage(t *testing.T) { histories(t, tier.Histories(500), "damage") }
