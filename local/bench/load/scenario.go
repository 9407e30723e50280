//go:build unix

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// scenario is a kind of load.
type scenario struct {
	name, about string
	population  func(rate float64, duration time.Duration) population
	own         bool // needs a gateway of its own, since it edits limits
}

// population is the callers of a load, and when each calls.
type population struct {
	groups       []group
	unregistered int // callers whose keys do not exist
	pick         func(callers int, random *rand.Rand) func(n int64) int
	schedule     func(rate float64, now time.Time, limits []limiter.Limit) schedule
}

// group is a number of keys of one plan.
type group struct {
	plan   policy.Plan
	keys   int
	edited edited
}

// edited is how the only limit of a plan's keys is edited during the load.
type edited uint8

const (
	notEdited  edited = iota
	planEdited        // by saving the plan
	overridden        // by overrides of its keys
)

// perKey is how many calls a second a key of the steady mix makes on average.
const perKey = 4

// maxKeys is the most keys of a scenario, to bound the time that creating them takes.
const maxKeys = 20_000

var scenarios = []scenario{
	{name: "steady", about: "many keys of two plans, some far more eager than others, and a few callers " +
		"without a key", population: steady},
	{name: "hot", about: "one key with nine tenths of the rate a second: every call takes from the same " +
		"counts", population: hot},
	{name: "cold", about: "each call comes from the key that has not called for longest", population: cold},
	{name: "denied", about: "ten keys that are over their limits all the time", population: flood},
	{name: "boundary", about: "every key tries to pass its limit twice, just before and just after each " +
		"boundary of its window", population: boundary},
	{name: "edits", about: "limits are edited twice a second while their keys call",
		population: edits, own: true},
}

func findScenario(name string) (scenario, error) {
	var names []string
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scenario{}, fmt.Errorf("-scenario %s: must be one of %s", name, strings.Join(names, ", "))
}

func plan(name string, limits ...limiter.Limit) policy.Plan {
	return policy.Plan{Name: "load " + name, Limits: limits}
}

func per(requests int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: window}
}

// evenly spreads the calls of a constant rate over all callers in turn.
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
// not. The same seed draws the same.
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

// In the boundary attack each key makes half as many calls again as its limit before a
// boundary, and as many after it.
const (
	attackWindow = 2 * time.Second
	attackLimit  = 20
	attackReach  = 10 // the calls come within a tenth of the window on either side
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

// aroundBoundaries attacks the shortest window, which is aligned to the epoch where a
// limiter aligns windows at all.
func aroundBoundaries(rate float64, now time.Time, limits []limiter.Limit) schedule {
	window := limits[0].Window
	for _, l := range limits {
		window = min(window, l.Window)
	}
	reach := window / attackReach
	return around(rate, window, reach, firstBoundary(now, window, reach))
}

// The limits that edits alternate between.
const (
	editedWindow = 2 * time.Second
	lowLimit     = 20
	highLimit    = 60
)

func edits(rate float64, _ time.Duration) population {
	keys := clamp(rate/(2*highLimit/editedWindow.Seconds()), 2, 200)
	limit := per(lowLimit, editedWindow)
	return population{
		groups: []group{
			{plan: plan("edited", limit), keys: keys, edited: planEdited},
			{plan: plan("overridden", limit), keys: 1, edited: overridden},
		},
		pick: evenly, schedule: constantly,
	}
}

func clamp(x, least, most float64) int { return int(min(max(x, least), most)) }
