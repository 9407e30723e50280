package enforce

import (
	"context"
	"crypto/sha1" //nolint:gosec // names a script, as EVALSHA wants it; protects nothing
	_ "embed"     // the scripts
	"encoding/hex"
	"strings"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

var (
	//go:embed lua/find.lua
	findLua string
	//go:embed lua/wide.lua
	wideLua string
	//go:embed lua/current.lua
	currentLua string
	//go:embed lua/lease.lua
	leaseLua string

	checkScript = newScript(func() string { return limiter.Script(findLua, checkTail) })
	wideScript  = newScript(func() string { return limiter.StepFunction() + findLua + wideLua })
	stepScript  = newScript(func() string { return limiter.Script(currentLua, "return reply") })
	leaseScript = newScript(func() string { return limiter.StepFunction() + currentLua + leaseLua })
)

const checkTail = "if public then return 'D' .. public .. reply end\nreturn 'K' .. reply"

// script is a Lua script that can leave in one flush with other commands, unlike the
// library's.
type script struct {
	text func() string
	sha  func() string
}

// newScript puts a script together when it is first needed: at the start of a function
// there is no time for all of them.
func newScript(text func() string) *script {
	text = sync.OnceValue(text)
	return &script{text, sync.OnceValue(func() string {
		sum := sha1.Sum([]byte(text())) //nolint:gosec // as above
		return hex.EncodeToString(sum[:])
	})}
}

func (s *script) command(client valkey.Client, keys, args []string) valkey.Completed {
	return client.B().Evalsha().Sha1(s.sha()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// whole is the command for a server that does not have the script yet.
func (s *script) whole(client valkey.Client, keys, args []string) valkey.Completed {
	return client.B().Eval().Script(s.text()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// missing reports whether a server did not have the script, so that nothing was executed.
func missing(err error) bool {
	refusal, ok := valkey.IsValkeyErr(err)
	return ok && strings.HasPrefix(refusal.Error(), "NOSCRIPT")
}

// run runs a script, whether the server has it or not.
func (c *Checker) run(ctx context.Context, s *script, keys, args []string) ([]byte, error) {
	reply, err := c.client.Do(ctx, s.command(c.client, keys, args)).AsBytes()
	if missing(err) {
		return c.client.Do(ctx, s.whole(c.client, keys, args)).AsBytes()
	}
	return reply, err
}

// scriptRun is one run of a script.
type scriptRun struct{ keys, args []string }

// runMany makes the runs in one flush and repeats those whose server did not have the
// script. It sends nothing to other servers, unlike the library's ExecMulti, which loads
// a script on all of them and fails when one is away.
func (c *Checker) runMany(ctx context.Context, s *script, runs []scriptRun) []valkey.ValkeyResult {
	if len(runs) == 0 {
		return nil
	}
	commands := make(valkey.Commands, len(runs))
	for i, r := range runs {
		commands[i] = s.command(c.client, r.keys, r.args)
	}
	results := c.client.DoMulti(ctx, commands...)
	var again valkey.Commands
	var at []int
	for i, r := range runs {
		if missing(results[i].Error()) {
			again = append(again, s.whole(c.client, r.keys, r.args))
			at = append(at, i)
		}
	}
	if len(again) == 0 {
		return results
	}
	for i, result := range c.client.DoMulti(ctx, again...) {
		results[at[i]] = result
	}
	return results
}
