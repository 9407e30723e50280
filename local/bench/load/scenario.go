//go:build unix

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// scenario is a kind of load.
type scenario struct {
	name       string
	population func(rate float64, duration time.Duration) population
}

// population has the callers of a load, and the times of their calls.
type population struct {
	groups       []group
	unregistered int // number of callers whose keys do not exist
	pick         func(callers int, random *rand.Rand) func(n int64) int
	schedule     func(rate float64, now time.Time, limits []limiter.Limit) schedule
}

// group is a plan and the number of its keys.
type group struct {
	plan policy.Plan
	keys int
}

// perKey is the mean number of calls a second of a key in the scenario steady.
const perKey = 4

// maxKeys is the maximum number of keys of a scenario. It bounds the time to create them.
const maxKeys = 20_000

// scenarios are described in the head of scripts/load.
var scenarios = []scenario{
	{name: "steady", population: steady}, {name: "hot", population: hot}, {name: "cold", population: cold},
	{name: "denied", population: flood}, {name: "boundary", population: boundary},
}

func scenarioNames() string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

func findScenario(name string) (scenario, error) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return scenario{}, fmt.Errorf("-scenario %s: must be one of %s", name, scenarioNames())
	}
	return scenarios[i], nil
}

func plan(name string, limits ...limiter.Limit) policy.Plan {
	return policy.Plan{Name: "load " + name, Limits: limits}
}

func per(requests int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: window}
}

// evenly lets the callers take turns.
func evenly(callers int, _ *rand.Rand) func(int64) int {
	return func(n int64) int { return int(n % int64(callers)) }
}

func constantly(rate float64, _ time.Time, _ []limiter.Limit) schedule { return constant(rate) }

func steady(rate float64, _ time.Duration) population {
	keys := clamp(rate/perKey, 4, 2_000)
	free := max(1, keys/5)
	return population{
		groups: []group{
			{plan: plan("pro", per(100, 10*time.Second), per(1000, 10*time.Minute)), keys: keys - free},
			{plan: plan("free", per(10, 10*time.Second)), keys: free},
		},
		unregistered: max(1, keys/50),
		pick:         eagerly,
		schedule:     constantly,
	}
}

// eagerly draws callers by a power law, so that some are over their limits and most are
// not. It draws the same callers for the same seed.
func eagerly(callers int, random *rand.Rand) func(int64) int {
	order := random.Perm(callers)
	drawn := make([]int32, 1<<16)
	for i := range drawn {
		drawn[i] = int32(order[int(float64(callers)*math.Pow(random.Float64(), 2))])
	}
	return func(n int64) int { return int(drawn[n%int64(len(drawn))]) }
}

func hot(rate float64, _ time.Duration) population {
	limit := per(int64(max(1, rate*.9)), time.Second)
	return population{groups: []group{{plan: plan("hot", limit), keys: 1}}, pick: evenly,
		schedule: constantly}
}

func cold(rate float64, duration time.Duration) population {
	keys := clamp(rate*duration.Seconds(), 1, maxKeys)
	return population{groups: []group{{plan: plan("cold", per(10, 10*time.Second)), keys: keys}},
		pick: evenly, schedule: constantly}
}

func flood(float64, time.Duration) population {
	return population{groups: []group{{plan: plan("flood", per(10, time.Hour)), keys: 10}}, pick: evenly,
		schedule: constantly}
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
	return population{
		groups:   []group{{plan: plan("boundary", per(attackLimit, attackWindow)), keys: keys}},
		pick:     evenly,
		schedule: aroundBoundaries,
	}
}

// aroundBoundaries attacks the boundaries of the shortest window. It assumes that they
// are aligned to the epoch, as in limiters with fixed windows.
func aroundBoundaries(rate float64, now time.Time, limits []limiter.Limit) schedule {
	window := limits[0].Window
	for _, l := range limits {
		window = min(window, l.Window)
	}
	reach := window / attackReach
	return around(rate, window, reach, firstBoundary(now, window, reach))
}

func clamp(x, low, high float64) int { return int(min(max(x, low), high)) }
