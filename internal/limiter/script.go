package limiter

import (
	_ "embed" // the scripts

	"tidegate/internal/lua"
)

var (
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/fast.lua
	fastLua string
	//go:embed lua/open.lua
	openLua string
	//go:embed lua/evaluate.lua
	evaluateLua string
	//go:embed lua/rare.lua
	rareLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/giveback.lua
	giveBackLua string
	//go:embed lua/reply.lua
	replyLua string
)

// clockLua sets now to the server's time in microseconds since 1970, for the whole
// script.
const clockLua = "local t = call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n"

// fetchLua reads the state, or its first 2,048 bytes. reply is nil until the step is
// made.
const fetchLua = "local s = call('GETRANGE', key, '0', '2047')\nlocal reply\n"

// Script returns the text of a Lua script that makes one step. head runs first; the local
// now has the server's time (microseconds since 1970). head must set the locals key, prog,
// counted, cost, calls and taken, which the header of open.lua describes. tail runs last;
// the local reply then has the encoded Decision, for ParseReply.
func Script(head, tail string) string {
	return preludeLua + clockLua + head + "\n" + stepLua() + tail
}

// StepFunction returns Lua code that defines `local function step(key, prog, cost, taken,
// counted, calls)`, for a script that makes several steps, each on another key. The
// function returns the encoded Decision, for ParseReply. The header of open.lua describes
// the arguments; the last two may be left out. All steps of a script happen at one
// instant, the local now.
func StepFunction() string { return preludeLua + clockLua + function("step", stepLua()) }

// LookFunction returns Lua code that defines `local function look(key, prog, cost)`, which
// returns the encoded Decision of a Take that takes nothing. It follows StepFunction. Its
// code has no command that writes.
func LookFunction() string { return function("look", lookStepLua()) }

func function(name, body string) string {
	return "local function " + name + "(key, prog, cost, taken, counted, calls)\n" +
		"counted, calls = counted or '', calls or 0\n" + body + "return reply\nend\n"
}

// stepLua returns the whole step: the fast one, and the general one where that leaves
// reply nil.
func stepLua() string {
	return fetchLua + "do\n" + fastLua + "end\nif not reply then\n" + openLua + rareLua + evaluateLua +
		takeLua + giveBackLua + replyLua + "end\n"
}

func lookStepLua() string { return fetchLua + openLua + rareLua + evaluateLua + replyLua }

// takeHead is the head of takeScript.
const takeHead = "local key, prog, counted, cost, calls, taken = KEYS[1], ARGV[1], '', 1, 0, 0\n" +
	"if ARGV[2] ~= '1' then\n" +
	"  cost, calls, taken = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])\n" +
	"end\n" +
	"if ARGV[5] then counted = ARGV[5] end"

// lookHead is the head of lookScript.
const lookHead = "local key, prog, counted, cost, taken = KEYS[1], ARGV[1], '', tonumber(ARGV[2]), 0"

var (
	takeScript = lua.New(TakeScript)
	lookScript = lua.NewReadOnly(LookScript)
)

// TakeScript returns the text of the script that a Limiter runs. KEYS[1] is the state,
// ARGV[1] the Program, and ARGV[2] the cost; a negative cost is given back. For a cost
// other than 1, ARGV[3] is the number of calls to give back and ARGV[4] when the cost was
// taken (microseconds since 1970), or -1 to take it even where it does not fit. ARGV[5] is
// a Program whose limits only count. The script returns an encoded Decision, for
// ParseReply.
func TakeScript() string { return Script(takeHead, "return reply") }

// LookScript returns the text of a script that evaluates a cost and takes nothing. It has
// no command that writes, so EVALSHA_RO runs it. KEYS[1] is the state, ARGV[1] the
// Program, ARGV[2] the cost; 0 evaluates a cost of 1. The script returns an encoded
// Decision, for ParseReply.
func LookScript() string {
	return preludeLua + clockLua + lookHead + "\n" + lookStepLua() + "return reply"
}
