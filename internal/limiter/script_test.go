package limiter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// fastOnly returns a script whose general step is replaced by an error.
func fastOnly(t testing.TB, source string) string {
	t.Helper()
	general := openLua + rareLua + evaluateLua + takeLua + giveBackLua + replyLua
	if !strings.Contains(source, general) {
		t.Fatal("the script does not contain the general step")
	}
	return strings.Replace(source, general, "error('this step needs the general one')\n", 1)
}

// drawFastLimits draws limits that fast.lua handles.
func drawFastLimits(t *rapid.T) []Limit {
	only := rapid.IntRange(-1, len(Algorithms())-1).Draw(t, "only")
	limits := make([]Limit, rapid.SampledFrom([]int{1, 2, 3, 3, 4, 8}).Draw(t, "limits"))
	for i := range limits {
		l := Limit{Requests: smallRequests.Draw(t, "requests"), Window: fastWindows.Draw(t, "window"),
			Calls: rapid.IntRange(0, 4).Draw(t, "calls") == 0}
		if l.Algorithm = Algorithm(max(0, only)); only < 0 {
			l.Algorithm = rapid.SampledFrom(Algorithms()).Draw(t, "algorithm")
		}
		if l.Algorithm == Log && len(limits) <= 4 && rapid.Bool().Draw(t, "grouped") {
			l.Requests, l.Slots = rapid.Int64Range(65, 900).Draw(t, "requests"), MinSlots
		}
		limits[i] = l
	}
	if _, of := sectionsOf(limits, nil); !slices.IsSorted(of) { // limits of one section are neighbours
		slices.SortStableFunc(limits, func(a, b Limit) int {
			return strings.Compare(sectionOrder(a), sectionOrder(b))
		})
	}
	return limits
}

// sectionOrder returns a text that sorts limits of one section together.
func sectionOrder(l Limit) string {
	id := l.section().sectionID
	return fmt.Sprintf("%d %t %d %d", id.kind, id.calls, id.group, id.window)
}

var fastWindows = rapid.SampledFrom([]time.Duration{
	time.Millisecond, 7 * time.Millisecond, time.Second, time.Minute, 17 * time.Minute, 24 * time.Hour,
	4 * 24 * time.Hour,
})

// playFast makes events that fast.lua handles: calls and the passing of time, without
// edits, refunds or clock steps.
func (h *history) playFast(t *rapid.T) {
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
			h.step(t, rapid.Int64Range(1, min(1000, h.smallestLimit())).Draw(t, "cost"))
		case 5:
			h.step(t, 0)
		default:
			h.step(t, 1)
		}
	}
}

// The fast step alone decides as the model does, from the first call on.
func TestFastStepEqualsModel(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	script, n := valkey.NewLuaScript(clockedSource(t, fastOnly(t, TakeScript()))), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{client: client, script: script, key: "h" + strconv.Itoa(n),
			now: time.Unix(1_800_000_000, 0), taken: time.Unix(1, 0)}
		h.limits, h.unforced = drawFastLimits(rt), true
		h.playFast(rt)
		client.Do(t.Context(), client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
	})
}

// The fast step alone decides the most common limits, also while an override replaces
// others and beside parts of lists that are gone. A denial writes nothing.
func TestFastStepOfCommonLimits(t *testing.T) {
	clock := newClocked(t)
	whole := clock.script
	fast := valkey.NewLuaScript(clockedServer + fastOnly(t, Script(takeHead, "return {reply, life, writes}")))
	for _, limits := range [][]Limit{
		{{Requests: 5, Window: time.Second}},
		{{Requests: 50, Window: time.Second}, {Requests: 5_000, Window: time.Hour}},
		{{Requests: 640, Window: time.Second, Slots: MinSlots}},
		{{Requests: 5, Window: time.Second, Algorithm: Counter}, {Requests: 5, Window: time.Second}},
		{{Requests: 5, Window: time.Second, Algorithm: TokenBucket}},
		{{Requests: 5, Window: time.Second, Algorithm: FixedWindow}},
		{{Requests: 5, Window: time.Second, Calls: true}, {Requests: 50, Window: time.Second}},
	} {
		for _, gone := range []bool{false, true} {
			s := clock.subject()
			s.counted = []Limit{{Requests: 9, Window: time.Minute}, {Requests: 9, Window: time.Minute,
				Algorithm: FixedWindow}}
			var model Model
			step := func() {
				t.Helper()
				s.now = s.now.Add(9 * time.Millisecond)
				want := model.Step(Step{Now: s.now, Limits: s.limits, Counted: s.counted, Cost: 1})
				if got := s.do(t, 1); fmt.Sprint(got) != fmt.Sprint(want) {
					s.fail(t, "got %+v, want %+v", got, want)
				}
				if s.script == fast && want.Allowed != (s.writes > 0) {
					s.fail(t, "got %d writes, allowed %t", s.writes, want.Allowed)
				}
			}
			s.script = whole
			if gone {
				s.limits = []Limit{{Requests: 3, Window: time.Minute, Algorithm: TokenBucket}}
				step()
				s.counted = nil
			}
			s.limits = limits
			for len(s.log) < 5 { // then a log has room for the calls that follow
				step()
			}
			for s.script = fast; len(s.log) < 10; {
				step()
			}
		}
	}
}

// twoSteps makes a step on each of two keys. The second step's arguments follow ARGV[6],
// the clock.
const twoSteps = `
local first = step(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[3]))
return {first, step(KEYS[2], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[9]))}`

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
				args[i] = s.args(t, s.now, cost)
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
			switch rapid.IntRange(0, 15).Draw(t, "edited") {
			case 0:
				s.edit(t)
			case 1: // an override begins, or ends
				s.limits, s.counted = s.counted, s.limits
				if len(s.limits) == 0 {
					s.limits = drawLimits(t)
				}
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
	replies, err := script.Exec(t.Context(), clock.client, []string{a.key, b.key},
		append(a.args(t, a.now, 3), b.args(t, b.now, 3)...)).AsStrSlice()
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

// A look has the decision of the model's Peek and changes nothing, after edits and clock
// steps too. The server runs it with EVAL_RO, which refuses a script that writes.
func TestLookEqualsPeek(t *testing.T) {
	clock := newClocked(t)
	source := preludeLua + "local now = tonumber(ARGV[2])\n" + function("look", lookStepLua()) +
		"return look(KEYS[1], ARGV[1], 0, 0)"
	for _, text := range []string{LookFunction(), LookScript()} {
		for _, command := range []string{"'SET", "'PEXPIRE", "'DEL"} {
			if strings.Contains(text, command) {
				t.Errorf("the text of a look has %s", command)
			}
		}
	}
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		var model Model
		for range events(t) {
			before := s.bytes(t)
			reply, err := s.client.Do(ctx, s.client.B().EvalRo().Script(source).Numkeys(1).
				Key(s.key).Arg(s.compiled(t), number(s.now.UnixMicro())).Build()).ToString()
			if err != nil {
				s.fail(t, "look: %v", err)
			}
			got, err := ParseReply([]byte(reply), s.limits)
			if want := model.Peek(s.now, s.limits); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				s.fail(t, "got %+v, %v, want %+v", got, err, want)
			}
			if after := s.bytes(t); after != before {
				s.fail(t, "a look changed the state from %x to %x", before, after)
			}
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				s.edit(t)
			case 1:
				s.advance(t)
			default:
				cost := s.cost(t)
				s.do(t, cost)
				model.Step(Step{Now: s.now, Limits: s.limits, Cost: cost})
			}
		}
	})
}

// LookScript runs with EVAL_RO as it is shipped.
func TestLookScriptIsReadOnly(t *testing.T) {
	program, err := Compile([]Limit{{Requests: 9, Window: time.Minute}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, valkeytest.Start(t))
	reply, err := client.Do(t.Context(), client.B().EvalRo().Script(LookScript()).Numkeys(1).Key("k").
		Arg(string(program), "0").Build()).ToString()
	if err != nil || len(reply) != replyHead+replyUsage {
		t.Errorf("got %x, %v, want a reply", reply, err)
	}
}
