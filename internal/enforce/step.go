package enforce

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// step is one run of a script on the limits of one subject.
type step struct {
	script *lua.Script
	keys   []string
	args   []string
	shared *compiled.SharedLimit // nil for the caller's own step
	known  *knownCaller          // included in args; nil for none
	guard  *guard                // included in args; nil for none
}

// stepArgs returns the arguments of stepScript. taken is when a negative cost, which is
// given back, was taken.
func stepArgs(program limiter.Program, cost int64, taken time.Time, version int64) []string {
	at := "0"
	if cost < 0 {
		at = strconv.FormatInt(taken.UnixMicro(), 10)
	}
	return []string{valkey.BinaryString(program), strconv.FormatInt(cost, 10), at,
		strconv.FormatInt(version, 10)}
}

// ownStep returns the step on the caller's own limits.
func (c *Checker) ownStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	hash := call.hash
	if call.Kind == policy.APIKey && hash == "" {
		sum := c.pepper.Hash(call.Secret)
		hash = string(sum[:])
	}
	id := call.Subject
	bucket := keyspace.BucketOf(id)
	cost := rule.Cost
	if set.Exempts(call.Address) {
		cost = 0
	}
	s := step{
		script: checkScript,
		keys:   []string{keyspace.Record(id), keyspace.State(id), policyset.CopyKey(bucket)},
		args: []string{hash, strconv.FormatInt(cost, 10), strconv.FormatInt(set.Version, 10),
			strconv.Itoa(plan)},
		guard: c.guard(set, call),
	}
	if len(rule.PerKeyEntry) > 0 && cost > 0 || s.guard != nil {
		return s.widened(id, rule, cost)
	}
	if s.known = c.known.find(id, hash, set.Version); s.known != nil {
		s.args = append(s.args, s.known.args...)
	}
	return s
}

// ownArgs is the number of arguments that checkScript and wideScript share.
const ownArgs = 4

// wideStep is ownStep with wideScript, which reports each list of limits by itself.
func (c *Checker) wideStep(set *compiled.Set, call Call, rule *compiled.Route, plan int) step {
	s := c.ownStep(set, call, rule, plan)
	if s.script == wideScript {
		return s
	}
	s.args, s.known = s.args[:ownArgs], nil
	return s.widened(call.Subject, rule, rule.Cost)
}

// widened turns a step of checkScript into one of wideScript.
func (s step) widened(id string, rule *compiled.Route, cost int64) step {
	perKey := valkey.BinaryString(rule.PerKeyEntry)
	if cost == 0 {
		perKey = ""
	}
	s.script = wideScript
	s.keys = append(s.keys, rule.State(id))
	s.args = append(s.args, perKey)
	if s.guard != nil {
		s.args = append(s.args, s.guard.args()...)
	}
	return s
}

var (
	//go:embed lua/find.lua
	findLua string
	//go:embed lua/wide.lua
	wideLua string
	//go:embed lua/current.lua
	currentLua string

	checkScript = lua.New(func() string { return limiter.Script(findLua, checkTail) })
	wideScript  = lua.New(func() string { return limiter.StepFunction() + findLua + wideLua })
	stepScript  = lua.New(func() string {
		return limiter.Script(currentLua+"counted = ARGV[5] or ''", "return reply")
	})
)

const checkTail = "if off then return 'O' .. pack('>I7', now) .. public end\n" +
	"if public then return 'D' .. public .. reply end\nreturn 'K' .. reply"

// stepReply is the reply to a step. bytes is empty if err is set.
type stepReply struct {
	bytes []byte
	err   error
}

// flush sends all steps and the piggybacked commands in one flush, and returns one reply
// for each step.
func (c *Checker) flush(ctx context.Context, steps []step, piggyback *Piggyback) []stepReply {
	if len(steps) == 0 {
		return nil
	}
	commands := make([]valkey.Completed, 0, len(steps)+4)
	for _, s := range steps {
		commands = append(commands, s.script.Command(c.client, s.keys, s.args))
	}
	extra := piggyback.take()
	var results []valkey.ValkeyResult
	if len(steps) == 1 && len(extra) == 0 {
		results = []valkey.ValkeyResult{c.client.Do(ctx, commands[0])}
	} else {
		results = c.client.DoMulti(ctx, append(commands, extra...)...)
	}
	if len(extra) > 0 {
		piggyback.done(results[len(steps):])
	}
	replies := make([]stepReply, len(steps))
	for i, s := range steps {
		bytes, err := results[i].AsBytes()
		if lua.Unknown(err) {
			bytes, err = c.client.Do(ctx, s.script.Whole(c.client, s.keys, s.args)).AsBytes()
		}
		if err != nil && !valkey.IsValkeyNil(err) {
			err = fmt.Errorf("enforce: check: %w", err)
		} else {
			err = nil
		}
		replies[i] = stepReply{bytes, err}
	}
	return replies
}

// Piggyback is a list of commands that leave in the first flush of a check. A nil
// Piggyback has none.
type Piggyback struct {
	client   valkey.Client
	commands []valkey.Completed
	done     func([]valkey.ValkeyResult)
}

// NewPiggyback returns commands that are sent once, with the first check that reaches
// Valkey. done then receives one result for each command.
func NewPiggyback(
	client valkey.Client, commands []valkey.Completed, done func([]valkey.ValkeyResult),
) *Piggyback {
	return &Piggyback{client, commands, done}
}

// take returns the commands that were not sent yet, and marks them as sent.
func (p *Piggyback) take() []valkey.Completed {
	if p == nil {
		return nil
	}
	commands := p.commands
	p.commands = nil
	return commands
}

// Flush sends the commands if no check has sent them.
func (p *Piggyback) Flush(ctx context.Context) {
	if commands := p.take(); len(commands) > 0 {
		p.done(p.client.DoMulti(ctx, commands...))
	}
}
