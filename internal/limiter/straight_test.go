package limiter

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// without returns a script in which some of the ways are an error.
func without(t testing.TB, source string, ways ...string) string {
	t.Helper()
	for _, way := range ways {
		if !strings.Contains(source, way) {
			t.Fatalf("the script does not hold %.60q", way)
		}
		source = strings.Replace(source, way, "error('this step needs another way')\n", 1)
	}
	return source
}

// drawStraight returns several limits, or one that counts denied calls, of the kind that
// manysections.lua is for.
func drawStraight(t *rapid.T) []Limit {
	if rapid.IntRange(0, 4).Draw(t, "attempts") == 0 {
		return []Limit{{Requests: smallRequests.Draw(t, "requests"),
			Window: straightWindows.Draw(t, "window"), CountDenied: true}}
	}
	only := rapid.IntRange(-1, len(Algorithms())-1).Draw(t, "only")
	limits := make([]Limit, rapid.SampledFrom([]int{2, 3, 3, 4, 8}).Draw(t, "limits"))
	for i := range limits {
		l := Limit{Requests: smallRequests.Draw(t, "requests"), Window: straightWindows.Draw(t, "window")}
		if l.Algorithm = Algorithm(max(0, only)); only < 0 {
			l.Algorithm = rapid.SampledFrom(Algorithms()).Draw(t, "algorithm")
		}
		if l.Algorithm == Log && len(limits) <= 4 && rapid.Bool().Draw(t, "grouped") {
			l.Requests, l.Slots = rapid.Int64Range(65, 900).Draw(t, "requests"), MinSlots
		}
		limits[i] = l
	}
	if _, of := sectionsOf(limits); !slices.IsSorted(of) {
		slices.SortStableFunc(limits, func(a, b Limit) int { return int(a.group() - b.group()) })
		slices.SortStableFunc(limits, func(a, b Limit) int { return int(a.Algorithm) - int(b.Algorithm) })
	}
	return limits
}

var straightWindows = rapid.SampledFrom([]time.Duration{
	time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 17 * time.Minute, 24 * time.Hour,
	4 * 24 * time.Hour,
})

// playStraight makes calls while time goes on, without edits, refunds or clock steps.
func (h *history) playStraight(t *rapid.T) {
	for range rapid.IntRange(1, 80).Draw(t, "calls") {
		window := h.limits[rapid.IntRange(0, len(h.limits)-1).Draw(t, "which")].Window
		switch rapid.IntRange(0, 11).Draw(t, "event") {
		case 0:
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{window - time.Microsecond, window, 3 * window,
				1000 * window}).Draw(t, "leap"))
		case 1, 2, 3:
			h.now = h.now.Add(time.Duration(rapid.Int64Range(0, window.Microseconds()/5).Draw(t,
				"forward")) * time.Microsecond)
		case 4:
			h.step(t, rapid.Int64Range(1, h.smallestLimit()).Draw(t, "cost"))
		case 5:
			if !h.limits[0].CountDenied {
				h.step(t, 0)
			}
		default:
			h.step(t, 1)
		}
	}
}

// Several limits, and attempts, are decided as the model does without the general way,
// from the first call on.
func TestSeveralLimitsGoStraight(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	script, n := valkey.NewLuaScript(clockedSource(t, stepLua())), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{client: client, script: script, key: "h" + strconv.Itoa(n),
			now: time.Unix(1_800_000_000, 0), taken: time.Unix(1, 0)}
		h.limits = drawStraight(rt)
		h.playStraight(rt)
		client.Do(t.Context(), client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
	})
}

// The commonest limits are decided by onesection.lua alone. A denial writes nothing.
func TestCommonLimitsGoStraightest(t *testing.T) {
	clock := newClocked(t)
	straightest := valkey.NewLuaScript(clockedServer +
		without(t, Script(takeHead, "return {reply, life, writes}"), manySectionsLua, stepLua()))
	for _, limits := range [][]Limit{
		{{Requests: 5, Window: time.Second}},
		{{Requests: 50, Window: time.Second}, {Requests: 5_000, Window: time.Hour}},
		{{Requests: 640, Window: time.Second, Slots: MinSlots}},
		{{Requests: 5, Window: time.Second, Algorithm: TokenBucket}},
		{{Requests: 5, Window: time.Second, Algorithm: FixedWindow}},
	} {
		s := clock.subject(limits...)
		s.script = straightest
		var model Model
		for range 8 {
			s.now = s.now.Add(9 * time.Millisecond)
			want, err := model.Take(s.now, limits, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.do(t, 1); !slices.Equal(got.Limits, want.Limits) || got.Allowed != want.Allowed {
				s.fail(t, "want %+v", want)
			}
			if want.Allowed != (s.writes > 0) {
				s.fail(t, "%d writes", s.writes)
			}
		}
	}
}
