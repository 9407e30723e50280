package limiter

import (
	"context"
	"testing"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"
)

// twoSteps makes a step on each of two keys; the second one's arguments follow the clock.
const twoSteps = `
local first = step(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
return {first, step(KEYS[2], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))}`

// Two steps in one script, on two keys, answer and store what two scripts do.
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
			s := pair[rapid.IntRange(0, 1).Draw(t, "whose")]
			if rapid.IntRange(0, 7).Draw(t, "edited") == 0 {
				s.edit(t)
			}
			s.advance(t)
			pair[0].now = s.now
		}
	})
}

// checkSame makes a step of the subject alone, and compares its reply and state to those
// of the same step in company.
func (s *subject) checkSame(t rapid.TB, args []string, reply, key string) {
	t.Helper()
	alone, err := s.script.Exec(context.Background(), s.client, []string{s.key}, args).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := alone[0].ToString(); reply != want {
		t.Fatalf("%v: replied %x, alone %x", s.limits, reply, want)
	}
	if d, err := ParseReply([]byte(reply), s.limits); err == nil && d.Allowed {
		s.taken = s.now
	}
	state, err := s.client.Do(context.Background(), s.client.B().Get().Key(key).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		t.Fatal(err)
	}
	if want := s.bytes(t); state != want {
		t.Fatalf("%v: the state is %x, alone %x", s.limits, state, want)
	}
}

// A cost above the limit is a reply of its own, and the script goes on.
func TestStepFunctionGoesOnAfterACostTooHigh(t *testing.T) {
	clock := newClocked(t)
	script := valkey.NewLuaScript(clockedServer + "\n" + StepFunction() + twoSteps)
	a, b := clock.subject(Limit{Requests: 2, Window: 1e9}), clock.subject(Limit{Requests: 3, Window: 1e9})
	args := []string{a.compiled(t), "3", "0", number(a.now.UnixMicro()), b.compiled(t), "3", "0"}
	replies, err := script.Exec(t.Context(), clock.client, []string{a.key, b.key}, args).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	if !ReplyCostTooHigh([]byte(replies[0])) {
		t.Errorf("the first step replied %x", replies[0])
	}
	if d, err := ParseReply([]byte(replies[1]), b.limits); err != nil || !d.Allowed {
		t.Errorf("the second step: %v, %v", d, err)
	}
}
