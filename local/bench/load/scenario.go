//go:build unix

package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// population has the callers of a scenario, and the times of their calls.
type population struct {
	groups       []group
	unregistered int // number of callers whose keys do not exist
	pick         func(callers int) func(n int64) int
	schedule     func(rate float64, callers []caller) (schedule, error)
}

// group is a plan and the number of its keys.
type group struct {
	plan policy.Plan
	keys int
}

// scenarios are described in the head of scripts/load.
var scenarios = map[string]func(rate float64, duration time.Duration) population{
	"steady": steady, "hot": hot, "cold": cold, "denied": flood, "boundary": boundary,
}

func groupOf(keys int, name string, list ...limits.Limit) group {
	return group{policy.Plan{Name: "load " + name, Limits: list}, keys}
}

func per(requests int64, window time.Duration) limits.Limit {
	return limits.Limit{Requests: requests, Window: window}
}

// evenly lets the callers take turns.
func evenly(callers int) func(int64) int { return func(n int64) int { return int(n % int64(callers)) } }

// perKey is the mean number of calls a second of a key in the scenario steady.
const perKey = 4

func steady(rate float64, _ time.Duration) population {
	keys := clamp(rate/perKey, 4, 2_000)
	free := max(1, keys/5)
	return population{[]group{
		groupOf(keys-free, "pro", per(100, 10*time.Second), per(1000, 10*time.Minute)),
		groupOf(free, "free", per(10, 10*time.Second)),
	}, max(1, keys/50), eagerly, constantly}
}

// eagerly draws callers by a power law, so that some are over their limits and most are
// not. It draws the same callers each time.
func eagerly(callers int) func(int64) int {
	random := rand.New(rand.NewPCG(1, 0)) //nolint:gosec // must be the same each time
	order := random.Perm(callers)
	drawn := make([]int32, 1<<16)
	for i := range drawn {
		drawn[i] = int32(order[int(float64(callers)*math.Pow(random.Float64(), 2))])
	}
	return func(n int64) int { return int(drawn[n%int64(len(drawn))]) }
}

func hot(rate float64, _ time.Duration) population {
	limit := per(int64(max(1, rate*.9)), time.Second)
	return population{[]group{groupOf(1, "hot", limit)}, 0, evenly, constantly}
}

// maxKeys is the maximum number of keys of a scenario. It bounds the time to create them.
const maxKeys = 20_000

func cold(rate float64, duration time.Duration) population {
	keys := clamp(rate*duration.Seconds(), 1, maxKeys)
	return population{[]group{groupOf(keys, "cold", per(10, 10*time.Second))}, 0, evenly, constantly}
}

func flood(float64, time.Duration) population {
	return population{[]group{groupOf(10, "flood", per(10, time.Hour))}, 0, evenly, constantly}
}

// In the boundary attack each key makes 1.5 times as many calls as its limit before a
// boundary, and as many after it.
const (
	attackWindow = 2 * time.Second
	attackLimit  = 20
	attackReach  = 10 // the calls are within a tenth of the window on either side
)

func boundary(rate float64, _ time.Duration) population {
	half := rate * (attackWindow / attackReach).Seconds()
	keys := clamp(half/(1.5*attackLimit), 1, maxKeys)
	return population{[]group{groupOf(keys, "boundary", per(attackLimit, attackWindow))}, 0, evenly,
		aroundBoundaries}
}

func clamp(x, low, high float64) int { return int(min(max(x, low), high)) }

// schedule returns the time since the start of the load at which call n is due. It is
// never before that of call n-1. It does not depend on the answers: the load is
// open-loop.
type schedule func(n int64) time.Duration

// constant returns an even schedule of rate calls a second.
func constant(rate float64) schedule {
	return func(n int64) time.Duration {
		return time.Duration(math.Round(float64(n) / rate * float64(time.Second)))
	}
}

func constantly(rate float64, _ []caller) (schedule, error) { return constant(rate), nil }

// aroundBoundaries attacks the boundaries of the shortest window. It assumes that they
// are aligned to the epoch, as in limiters with fixed windows.
func aroundBoundaries(rate float64, callers []caller) (schedule, error) {
	window := time.Duration(math.MaxInt64)
	for _, c := range callers {
		for _, l := range c.limits {
			window = min(window, l.Window)
		}
	}
	if window == math.MaxInt64 {
		return nil, errors.New("the answers do not have the limits of the keys")
	}
	reach := window / attackReach
	now := time.Now()
	first := now.Add(reach).Truncate(window).Add(window).Sub(now)
	return around(rate, window, reach, first), nil
}

// around returns a schedule of rate calls a second within reach before and after every
// boundary of a window, and no calls between. first is the time of the first boundary, at
// least reach.
func around(rate float64, window, reach, first time.Duration) schedule {
	busy := constant(rate)
	return func(n int64) time.Duration {
		at := busy(n)
		return first - reach + window*time.Duration(at/(2*reach)) + at%(2*reach)
	}
}
