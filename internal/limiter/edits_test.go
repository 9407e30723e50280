package limiter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// admission is a cost that was admitted.
type admission struct {
	at   time.Time
	cost int64
}

// fullest returns the largest cost in any window [at, at+window) of admissions in order
// of time.
func fullest(admissions []admission, window time.Duration) (at time.Time, most int64) {
	first, sum := 0, int64(0)
	for _, a := range admissions {
		sum += a.cost
		for !admissions[first].at.Add(window).After(a.at) {
			sum -= admissions[first].cost
			first++
		}
		if sum > most {
			at, most = admissions[first].at, sum
		}
	}
	return at, most
}

// However often a log's limit is edited, up and down, with slots for one call or for
// many, no rolling window admits more than the largest limit, as long as that is at most
// DefaultSlots: of more calls in groups an edit to smaller groups keeps only so many.
func TestRollingWindowAcrossEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, largest, now := drawEdit(t), int64(0), at(0)
		var m Model
		var admissions []admission
		var log []string
		for range events(t) {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				limit = drawEdit(t)
			case 1:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(limit.Window/2)).Draw(t,
					"forward")).Truncate(time.Microsecond))
			}
			cost := rapid.OneOf(rapid.Int64Range(1, limit.Requests),
				rapid.Just(limit.Requests)).Draw(t, "cost")
			d, err := m.Take(now, []Limit{limit}, cost)
			if err != nil {
				t.Fatal(err)
			}
			line := "%d %s, %d slots: cost %d: %t, %d remain"
			log = append(log, fmt.Sprintf(line, now.UnixMicro(), limit, limit.Slots, cost, d.Allowed,
				d.Limits[0].Remaining))
			if largest = max(largest, limit.Requests); d.Allowed {
				admissions = append(admissions, admission{now, cost})
			}
		}
		if from, most := fullest(admissions, limit.Window); most > largest {
			t.Fatalf("%s\n%d admitted in the window from %d on, the largest limit was %d",
				strings.Join(log, "\n"), most, from.UnixMicro(), largest)
		}
	})
}

func drawEdit(t *rapid.T) Limit {
	return Limit{
		Requests: rapid.SampledFrom([]int64{5, 100, 900, 5_000, DefaultSlots}).Draw(t, "requests"),
		Window:   time.Minute,
		Slots:    rapid.SampledFrom([]int{0, MinSlots}).Draw(t, "slots"),
	}
}

// A limit that is lowered for a moment and raised again has forgotten nothing of its
// window.
func TestLoweringForAMomentForgetsNothing(t *testing.T) {
	var m Model
	high, low := []Limit{{Requests: DefaultSlots, Window: time.Minute, Slots: MinSlots}},
		[]Limit{{Requests: 100, Window: time.Minute}}
	for second, step := range []struct {
		limits  []Limit
		cost    int64
		allowed bool
	}{{high, DefaultSlots, true}, {low, 1, false}, {high, 1, false}} {
		d, err := m.Take(at(float64(second)), step.limits, step.cost)
		if err != nil || d.Allowed != step.allowed {
			t.Errorf("%s at %ds: allowed %t, %d remain, %v", step.limits[0], second, d.Allowed,
				d.Limits[0].Remaining, err)
		}
	}
}
