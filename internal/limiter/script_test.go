package limiter

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// without returns a script in which some of its parts are replaced by an error.
func without(t testing.TB, source string, parts ...string) string {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(source, part) {
			t.Fatalf("the script does not contain %.60q", part)
		}
		source = strings.Replace(source, part, "error('this step needs another part')\n", 1)
	}
	return source
}

// drawManySections draws limits that manysections.lua handles: several, or one that
// counts denied calls.
func drawManySections(t *rapid.T) []Limit {
	if rapid.IntRange(0, 4).Draw(t, "attempts") == 0 {
		return []Limit{{Requests: smallRequests.Draw(t, "requests"),
			Window: shortcutWindows.Draw(t, "window"), CountDenied: true}}
	}
	only := rapid.IntRange(-1, len(Algorithms())-1).Draw(t, "only")
	limits := make([]Limit, rapid.SampledFrom([]int{2, 3, 3, 4, 8}).Draw(t, "limits"))
	for i := range limits {
		l := Limit{Requests: smallRequests.Draw(t, "requests"), Window: shortcutWindows.Draw(t, "window")}
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

var shortcutWindows = rapid.SampledFrom([]time.Duration{
	time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 17 * time.Minute, 24 * time.Hour,
	4 * 24 * time.Hour,
})

// playManySections makes events that manysections.lua handles: calls and the passing of
// time, without edits, refunds or clock steps.
func (h *history) playManySections(t *rapid.T) {
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

// The shortcuts alone decide several limits, and limits that count denied calls, as the
// model does, from the first call on.
func TestManySectionsShortcut(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	script, n := valkey.NewLuaScript(clockedSource(t, generalStepLua())), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{client: client, script: script, key: "h" + strconv.Itoa(n),
			now: time.Unix(1_800_000_000, 0), taken: time.Unix(1, 0)}
		h.limits = drawManySections(rt)
		h.playManySections(rt)
		client.Do(t.Context(), client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
	})
}

// onesection.lua alone decides the most common limits. A denial writes nothing.
func TestOneSectionShortcut(t *testing.T) {
	clock := newClocked(t)
	shortcut := valkey.NewLuaScript(clockedServer +
		without(t, Script(takeHead, "return {reply, life, writes}"), manySectionsLua, generalStepLua()))
	for _, limits := range [][]Limit{
		{{Requests: 5, Window: time.Second}},
		{{Requests: 50, Window: time.Second}, {Requests: 5_000, Window: time.Hour}},
		{{Requests: 640, Window: time.Second, Slots: MinSlots}},
		{{Requests: 5, Window: time.Second, Algorithm: TokenBucket}},
		{{Requests: 5, Window: time.Second, Algorithm: FixedWindow}},
	} {
		s := clock.subject(limits...)
		s.script = shortcut
		var model Model
		for range 8 {
			s.now = s.now.Add(9 * time.Millisecond)
			want, err := model.Take(s.now, limits, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.do(t, 1); !slices.Equal(got.Limits, want.Limits) || got.Allowed != want.Allowed {
				s.fail(t, "got %+v, want %+v", got, want)
			}
			if want.Allowed != (s.writes > 0) {
				s.fail(t, "got %d writes, allowed %t", s.writes, want.Allowed)
			}
		}
	}
}

// twoSteps makes a step on each of two keys. The second step's arguments follow ARGV[4],
// the clock.
const twoSteps = `
local first = step(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
return {first, step(KEYS[2], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))}`

// Two steps in one script, on two keys, reply and store the same as two scripts.
func TestStepFunctionEqualsSeparateSteps(t *testing.T) {
	clock := newClocked(t)
	script := valkey.NewLuaScript(clockedServer + "\n" + StepFunction() + twoSteps)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		pair := [2]*subject{clock.subject(drawLimits(t)...), clock.subject(drawLimits(t)...)}
		for range events(t) {
			var args [2][]string
			for i, s := range pair {
				s.now = pair[0].now
				s.command(t, "DEL", "together"+number(int64(i)))
				if s.bytes(t) != "" {
					s.command(t, "COPY", s.key, "together"+number(int64(i)))
				}
				cost := rapid.SampledFrom([]int64{1, 1, 1, 0, s.cost(t), -s.cost(t)}).Draw(t, "cost")
				args[i] = []string{s.compiled(t), number(cost), number(s.taken.UnixMicro()),
					number(s.now.UnixMicro())}
			}
			together, err := script.Exec(ctx, clock.client, []string{"together0", "together1"},
				append(args[0], args[1]...)).AsStrSlice()
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range pair {
				s.checkSame(t, args[i], together[i], "together"+number(int64(i)))
			}
			s := pair[rapid.IntRange(0, 1).Draw(t, "subject")]
			if rapid.IntRange(0, 7).Draw(t, "edited") == 0 {
				s.edit(t)
			}
			s.advance(t)
			pair[0].now = s.now
		}
	})
}

// checkSame makes a step on the subject alone. It compares reply and state with those of
// the same step in a script with another one; key has that state.
func (s *subject) checkSame(t rapid.TB, args []string, reply, key string) {
	t.Helper()
	alone, err := s.script.Exec(context.Background(), s.client, []string{s.key}, args).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := alone[0].ToString(); reply != want {
		t.Fatalf("%v: got reply %x, want %x as alone", s.limits, reply, want)
	}
	if d, err := ParseReply([]byte(reply), s.limits); err == nil && d.Allowed {
		s.taken = s.now
	}
	state, err := s.client.Do(context.Background(), s.client.B().Get().Key(key).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		t.Fatal(err)
	}
	if want := s.bytes(t); state != want {
		t.Fatalf("%v: got state %x, want %x as alone", s.limits, state, want)
	}
}

// The step function returns a special reply for a cost above the limit, and the script
// continues with its next step.
func TestStepFunctionCostTooHigh(t *testing.T) {
	clock := newClocked(t)
	script := valkey.NewLuaScript(clockedServer + "\n" + StepFunction() + twoSteps)
	a, b := clock.subject(Limit{Requests: 2, Window: 1e9}), clock.subject(Limit{Requests: 3, Window: 1e9})
	args := []string{a.compiled(t), "3", "0", number(a.now.UnixMicro()), b.compiled(t), "3", "0"}
	replies, err := script.Exec(t.Context(), clock.client, []string{a.key, b.key}, args).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	if !ReplyCostTooHigh([]byte(replies[0])) {
		t.Errorf("first step: got reply %x, want cost too high", replies[0])
	}
	if d, err := ParseReply([]byte(replies[1]), b.limits); err != nil || !d.Allowed {
		t.Errorf("second step: got %v, %v, want allowed", d, err)
	}
}
