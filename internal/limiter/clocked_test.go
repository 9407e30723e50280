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

// clockedServer is Lua code that wraps redis.call for the shipped script. TIME returns an
// argument. Keys get a long time to live, since virtual time runs ahead of the server's.
// The locals life and writes have the time to live that the script set (milliseconds;
// negative if it only prolongs it) and the number of its writes.
const clockedServer = `local server, clock, life, writes = redis, tonumber(ARGV[6]), 0, 0
local redis = {call = function(command, ...)
  local words = {...}
  if command == 'TIME' then
    return {string.format('%.0f', math.floor(clock / 1000000)), string.format('%.0f', clock % 1000000)}
  elseif command == 'SET' then
    if #words ~= 4 or words[3] ~= 'PX' then error('a state without a time to live') end
    life, words[4] = tonumber(words[4]), '600000'
    writes = writes + 1
  elseif command == 'SETRANGE' then
    writes = writes + 1
  elseif command == 'PEXPIRE' then
    if words[3] ~= 'GT' then error('a life that may get shorter') end
    life, words[2] = -tonumber(words[2]), '600000'
  elseif command ~= 'GETRANGE' and command ~= 'STRLEN' then
    error('the script calls ' .. command .. ', which these tests do not know')
  end
  return server.call(command, _G.unpack(words))
end}
`

// clocked runs the shipped script at instants that a test sets.
type clocked struct {
	client valkey.Client
	script *valkey.Lua
	keys   int
}

func newClocked(t testing.TB) *clocked {
	t.Helper()
	script := clockedServer + Script(takeHead, "return {reply, life, writes}")
	return &clocked{client: connect(t, valkeytest.Start(t)), script: valkey.NewLuaScript(script)}
}

// subject is a key with its limits and a clock of its own.
type subject struct {
	history // the client, key, limits and clock; its model is not used
	program Program
	expiry  time.Time // the last millisecond in which the server has the key
	writes  int64     // number of writes of the last step
	force   bool      // a cost is taken even where it does not fit
}

// subject returns a subject on a new key.
func (c *clocked) subject(limits ...Limit) *subject {
	c.keys++
	h := history{client: c.client, script: c.script, key: "s" + strconv.Itoa(c.keys), limits: limits}
	h.now, h.taken = time.Unix(1_800_000_000, 0), time.Unix(1, 0)
	return &subject{history: h}
}

// compiled returns the program of the current limits. It compiles only after an edit, and
// always with a calendar, whose program depends on the time.
func (s *subject) compiled(t rapid.TB) string {
	t.Helper()
	calendar := slices.ContainsFunc(s.limits, func(l Limit) bool { return l.Calendar != NoCalendar })
	if limits, err := s.program.Limits(); err == nil && !calendar && slices.Equal(limits, s.limits) {
		return string(s.program)
	}
	program, err := Compile(s.limits, s.now)
	if err != nil {
		t.Fatal(err)
	}
	s.program = program
	return string(program)
}

// try makes a step on a key at an instant, with a cost as the script takes it. It returns
// the script's error.
func (s *subject) try(t rapid.TB, key string, now time.Time, cost int64) (d Decision, life time.Duration,
	writes int64, err error) {
	t.Helper()
	args := s.args(t, now, cost)
	answer, err := s.script.Exec(context.Background(), s.client, []string{key}, args).ToArray()
	if err != nil {
		return Decision{}, 0, 0, err
	}
	reply, err := answer[0].ToString()
	if err != nil {
		t.Fatal(err)
	}
	milliseconds, _ := answer[1].AsInt64()
	writes, _ = answer[2].AsInt64()
	d, err = ParseReply([]byte(reply), s.limits)
	return d, time.Duration(milliseconds) * time.Millisecond, writes, err
}

// args returns the script's arguments for a step.
func (s *subject) args(t rapid.TB, now time.Time, cost int64) []string {
	t.Helper()
	counted := ""
	if len(s.counted) > 0 {
		program, err := Compile(s.counted, now)
		if err != nil {
			t.Fatal(err)
		}
		counted = string(program)
	}
	return []string{s.compiled(t), number(cost), "1", s.at(cost), counted, number(now.UnixMicro())}
}

// do makes a step on the subject now. A cost of 0 peeks, a negative cost is refunded.
func (s *subject) do(t rapid.TB, cost int64) Decision {
	t.Helper()
	d, life, writes, err := s.try(t, s.key, s.now, cost)
	line := "%d %v cost %d: %t %v, %d writes, %s to live"
	s.log = append(s.log, fmt.Sprintf(line, s.now.UnixMicro(), s.limits, cost, d.Allowed, d.Limits,
		writes, life))
	if err != nil {
		s.fail(t, "script: %v", err)
	}
	for i, u := range d.Limits {
		most := 2 * u.Limit.Span()
		if u.Remaining < 0 || u.Remaining > u.Limit.Requests || u.Reset < 0 || u.Reset > most ||
			u.RetryAfter < 0 || u.RetryAfter > most && cost <= u.Limit.Requests {
			s.fail(t, "limit %d: usage is out of range: %+v", i, u)
		}
	}
	s.writes = writes
	until := s.now.Truncate(time.Millisecond).Add(life.Abs())
	if life > 0 || life < 0 && until.After(s.expiry) {
		s.expiry = until
	}
	if cost > 0 && d.Allowed {
		s.taken = s.now
	}
	return d
}

// probe makes a step at an instant on a copy of the state.
func (s *subject) probe(t rapid.TB, now time.Time, cost int64) Decision {
	t.Helper()
	s.command(t, "COPY", s.key, "probe", "REPLACE")
	if s.bytes(t) == "" {
		s.command(t, "DEL", "probe")
	}
	d, _, _, err := s.try(t, "probe", now, cost)
	if err != nil {
		s.fail(t, "probe of cost %d at %d: %v", cost, now.UnixMicro(), err)
	}
	return d
}

// bytes returns the stored state; "" if there is none.
func (s *subject) bytes(t rapid.TB) string {
	t.Helper()
	state, err := s.client.Do(context.Background(), s.client.B().Get().Key(s.key).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		t.Fatal(err)
	}
	return state
}

func (s *subject) command(t rapid.TB, words ...string) {
	t.Helper()
	if err := s.client.Do(context.Background(),
		s.client.B().Arbitrary(words...).Build()).Error(); err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
}

func (s *subject) fail(t rapid.TB, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s\n%s", strings.Join(s.log, "\n"), fmt.Sprintf(format, args...))
}

// events draws a number of events.
func events(t *rapid.T) int { return rapid.SampledFrom([]int{1, 3, 10, 30, 60}).Draw(t, "events") }

// afterEvents calls check after each of many random events of subjects with random
// limits.
func afterEvents(t *testing.T, check func(t *rapid.T, s *subject)) {
	t.Helper()
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
			check(t, s)
		}
	})
}

// event makes a random event: mostly a call or the passing of time.
func (s *subject) event(t *rapid.T) {
	switch rapid.IntRange(0, 13).Draw(t, "event") {
	case 0:
		s.edit(t)
	case 1:
		s.do(t, 0)
	case 2:
		s.do(t, -s.cost(t))
	case 3, 4:
		s.do(t, s.cost(t))
	case 5, 6, 7:
		s.advance(t)
		s.expire(t)
	default:
		s.do(t, 1)
	}
}

// expire deletes the key if the server would have deleted it, and reports that.
func (s *subject) expire(t rapid.TB) (expired bool) {
	t.Helper()
	expired = s.now.Truncate(time.Millisecond).After(s.expiry)
	if expired {
		s.command(t, "DEL", s.key)
	}
	return expired
}

// cost draws a cost that every limit could admit.
func (s *subject) cost(t *rapid.T) int64 {
	most := min(s.smallestLimit(), 1000)
	return rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, most), rapid.Just(most)).Draw(t, "cost")
}

// longest returns the longest window.
func (s *subject) longest() time.Duration {
	var longest time.Duration
	for _, l := range s.limits {
		longest = max(longest, l.Span())
	}
	return longest
}

// at returns the script's fourth argument: when a refunded cost was taken, -1 to force a
// cost, otherwise 0.
func (s *subject) at(cost int64) string {
	switch {
	case cost < 0:
		return number(s.taken.UnixMicro())
	case cost > 0 && s.force:
		return "-1"
	}
	return "0"
}
