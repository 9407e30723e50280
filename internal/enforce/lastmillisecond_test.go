package enforce

import (
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// lastMillisecond runs a script as it runs when less than a millisecond is left to every
// key that expires.
const lastMillisecond = `
local redis = setmetatable({call = function(command, ...)
  local reply = redis.call(command, ...)
  return command == 'PTTL' and reply > 0 and 0 or reply
end}, {__index = redis})
`

// A state that is put back in the last millisecond of its life does not live for ever.
func TestPutBackInTheLastMillisecond(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(7)}}
		s.Routes = []policy.Route{{Name: "orders", Pattern: route.Pattern{Path: "/orders"}, Cost: 1,
			PerKey: perMinute(1)}}
	})
	for name, command := range map[string]func(apikey.Secret) valkey.Completed{
		"denied by the route": func(secret apikey.Secret) valkey.Completed {
			set := w.checker.set.Load()
			plan, rule, err := admit(set, call(secret))
			if err != nil {
				t.Fatal(err)
			}
			step := w.checker.ownStep(set, call(secret), rule, plan)
			eval := w.client.B().Eval().Script(lastMillisecond +
				step.script.Text()).Numkeys(int64(len(step.keys)))
			return eval.Key(step.keys...).Arg(step.args...).Build()
		},
		"explained": func(secret apikey.Secret) valkey.Completed {
			program := must(limiter.Compile(perMinute(7), w.Now()))
			eval := w.client.B().Eval().Script(lastMillisecond + limiter.StepFunction() + tryLua).Numkeys(1)
			return eval.Key(keyspace.State(secret.ID())).Arg(valkey.BinaryString(program), "1").Build()
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, secret := w.create(t, "a", "free")
			w.expect(t, call(secret), "y")
			if err := w.client.Do(t.Context(), command(secret)).Error(); err != nil {
				t.Fatal(err)
			}
			left := must(w.client.Do(t.Context(),
				w.client.B().Pttl().Key(keyspace.State(k.ID)).Build()).AsInt64())
			if left == -1 || left > 1 {
				t.Errorf("the state lives for %d ms, want at most 1; -1 is for ever", left)
			}
		})
	}
}
