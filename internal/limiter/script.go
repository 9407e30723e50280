package limiter

import (
	_ "embed" // the scripts
	"strings"

	"tidegate/internal/lua"
)

var (
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/onesection.lua
	oneSectionLua string
	//go:embed lua/manysections.lua
	manySectionsLua string
	//go:embed lua/calendar.lua
	calendarLua string
	//go:embed lua/readstate.lua
	readStateLua string
	//go:embed lua/carryover.lua
	carryoverLua string
	//go:embed lua/step.lua
	generalLua string
	//go:embed lua/refund.lua
	refundLua string
	//go:embed lua/writestate.lua
	writeStateLua string
)

// clockLua reads the server's time, in microseconds since 1970. All of a script goes by
// it.
const clockLua = "local t = call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n"

// fetchLua fetches the state, or its first 2,048 bytes. reply is nil until one of the
// ways to make the step has made it.
const fetchLua = "local s = call('GETRANGE', key, '0', '2047')\nlocal reply\n"

// Script returns the text of a Lua script that makes one step. head runs first, with the
// server's time in the local now (microseconds), and must set the locals key, prog, cost
// and refund, as readstate.lua's header says. tail runs last and finds the encoded
// Decision in the local reply, for ParseReply.
func Script(head, tail string) string {
	return preludeLua + clockLua + head + "\n" + ways() + tail
}

// StepFunction returns the text of Lua code that defines `local function step(key, prog,
// cost, refund)`, for a script that makes several steps, each on a key of its own. The
// function returns the encoded Decision, for ParseReply; its arguments are what
// readstate.lua's header says, cost and refund as numbers. All steps of a script happen at
// one instant, the local now.
func StepFunction() string {
	return preludeLua + clockLua + "local function step(key, prog, cost, refund)\n" + ways() +
		"return reply\nend\n"
}

// stepLua returns the general step, for every case.
func stepLua() string {
	return calendarLua + readStateLua + carryoverLua + generalLua + refundLua + writeStateLua
}

// ways returns Lua that reads the state and runs the first script that handles the case:
// onesection.lua, manysections.lua or the general step. A script that does not handle it
// changes nothing. The program's length shows whether it has one section, which is
// onesection.lua's case.
func ways() string {
	const otherwise = "end\nif not reply then\n"
	return strings.Join([]string{
		fetchLua, "if #prog % 14 == 2 then\n", oneSectionLua, otherwise, manySectionsLua, otherwise,
		stepLua(), "end\n",
	}, "")
}

// takeHead reads the key, the program, the cost and what ARGV[3] says of it.
const takeHead = "local key, prog, cost, refund = KEYS[1], ARGV[1], 1, 0\n" +
	"if ARGV[2] ~= '1' or ARGV[3] == '-1' then cost, refund = tonumber(ARGV[2]), tonumber(ARGV[3]) end"

var takeScript = lua.New(TakeScript)

// TakeScript returns the text of the script behind Limiter. KEYS[1] is the state. ARGV[1]
// is the Program; ARGV[2] the cost, below 0 to give back; ARGV[3] the time at which that
// was taken, in microseconds since 1970, or Reserving, or 0. It returns what ParseReply
// reads.
func TakeScript() string { return Script(takeHead, "return reply") }
