package limiter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidegate/internal/testing/histories"
)

// A limit that another one makes moot is named with it; of two that are equal one is.
func TestMootLimits(t *testing.T) {
	per := func(n int64, w time.Duration) Limit { return Limit{Requests: n, Window: w} }
	bucket := Limit{Requests: 10, Window: time.Second, Algorithm: TokenBucket}
	daily := Limit{Requests: 1000, Algorithm: FixedWindow, Calendar: Day}
	attempts := Limit{Requests: 100, Window: 10 * time.Second, CountDenied: true}
	for name, row := range map[string]struct {
		limits []Limit
		want   []Moot
	}{
		"none":                  {nil, nil},
		"both can deny":         {[]Limit{per(10, time.Second), per(1000, time.Hour)}, nil},
		"a longer one":          {[]Limit{per(10, time.Second), per(600, time.Minute)}, []Moot{{1, 0}}},
		"one call fewer":        {[]Limit{per(10, time.Second), per(599, time.Minute)}, nil},
		"a shorter one":         {[]Limit{per(100, time.Second), per(50, time.Hour)}, []Moot{{0, 1}}},
		"equal":                 {[]Limit{per(5, time.Minute), per(5, time.Minute)}, []Moot{{0, 1}}},
		"a burst on either end": {[]Limit{bucket, per(100, 10*time.Second)}, nil},
		"above the bursts":      {[]Limit{bucket, per(110, 10*time.Second)}, []Moot{{1, 0}}},
		"a calendar day":        {[]Limit{per(40, time.Hour), daily}, []Moot{{1, 0}}},
		"a day of 25 hours":     {[]Limit{per(41, time.Hour), daily}, nil},
		"denied calls count":    {[]Limit{per(1, time.Second), attempts}, nil},
		"beyond every bound": {[]Limit{per(MaxRequests, time.Millisecond),
			per(MaxRequests, MaxWindow)}, nil},
	} {
		if got := MootLimits(row.limits); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// A limit that is called moot changes no decision, whatever the calls are.
func TestMootLimitNeverDenies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limit := func() Limit {
		l := Limit{Requests: 1 + random.Int64N(200), Window: time.Duration(1+random.IntN(20)) * time.Second,
			Algorithm: Algorithm(random.IntN(len(Algorithms())))}
		if l.Algorithm == Log && random.IntN(3) == 0 && l.Requests > MinSlots {
			l.Slots = MinSlots
		}
		return l
	}
	tried := 0
	for range histories.N(4000) {
		limits := []Limit{limit(), limit()}
		for _, m := range MootLimits(limits) {
			tried++
			var alone, both Model
			at := time.Unix(1_800_000_000, 0)
			for range 300 {
				at = at.Add(time.Duration(random.ExpFloat64() * 0.3 * float64(time.Second)))
				want, _ := alone.Take(at, limits[m.By:m.By+1], 1)
				got, _ := both.Take(at, limits, 1)
				if got.Allowed != want.Allowed {
					t.Fatalf("%+v denies with %+v", limits[m.Limit], limits[m.By])
				}
			}
		}
	}
	if tried < histories.N(100) {
		t.Errorf("only %d moot limits were tried", tried)
	}
}
