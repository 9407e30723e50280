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

// clockLua sets now to the server's time in microseconds since 1970, for the whole
// script.
const clockLua = "local t = call('TIME')\nlocal now = t[1] * 1000000 + t[2]\n"

// fetchLua reads the state, or its first 2,048 bytes. reply is nil until the step is
// made.
const fetchLua = "local s = call('GETRANGE', key, '0', '2047')\nlocal reply\n"

// Script returns the text of a Lua script that makes one step. head runs first; the local
// now has the server's time (microseconds since 1970). head must set the locals key,
// prog, cost and refund, which the header of readstate.lua describes. tail runs last; the
// local reply then has the encoded Decision, for ParseReply.
func Script(head, tail string) string {
	return preludeLua + clockLua + head + "\n" + stepLua() + tail
}

// StepFunction returns Lua code that defines `local function step(key, prog, cost,
// refund)`, for a script that makes several steps, each on another key. The function
// returns the encoded Decision, for ParseReply. The header of readstate.lua describes the
// arguments; cost and refund are numbers. All steps of a script happen at one instant,
// the local now.
func StepFunction() string {
	return preludeLua + clockLua + "local function step(key, prog, cost, refund)\n" + stepLua() +
		"return reply\nend\n"
}

// generalStepLua returns the general step, which handles every case.
func generalStepLua() string {
	return calendarLua + readStateLua + carryoverLua + generalLua + refundLua + writeStateLua
}

// stepLua returns Lua code that reads the state and makes the step. It tries
// onesection.lua, manysections.lua and the general step, in this order, until one sets
// reply. A shortcut that does not set reply has written nothing. onesection.lua is
// skipped unless the program's length modulo 14 is 2, as it is for one section without
// calendar or thresholds.
func stepLua() string {
	const otherwise = "end\nif not reply then\n"
	return strings.Join([]string{
		fetchLua, "if #prog % 14 == 2 then\n", oneSectionLua, otherwise, manySectionsLua, otherwise,
		generalStepLua(), "end\n",
	}, "")
}

// takeHead is the head of takeScript.
const takeHead = "local key, prog, cost, refund = KEYS[1], ARGV[1], 1, 0\n" +
	"if ARGV[2] ~= '1' or ARGV[3] == '-1' then cost, refund = tonumber(ARGV[2]), tonumber(ARGV[3]) end"

var takeScript = lua.New(TakeScript)

// TakeScript returns the text of the script that a Limiter runs. KEYS[1] is the state,
// ARGV[1] the Program, and ARGV[2] the cost: 0 peeks, and a negative cost is refunded.
// For a refund, ARGV[3] is the time at which the cost was taken (microseconds since
// 1970); otherwise it is Reserving or 0. The script returns an encoded Decision, for
// ParseReply.
func TakeScript() string { return Script(takeHead, "return reply") }
