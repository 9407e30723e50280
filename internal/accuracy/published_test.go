package accuracy

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// server runs published limiters on a real server, with the test's clock.
type server struct {
	client        valkey.Client
	limit, window int64
	key           string
}

// zset sends the commands of a pipeline and returns the reply of ZCARD. The score and the
// member are the time.
func (s server) zset(t *rapid.T, now int64, addFirst bool) int64 {
	at := strconv.FormatInt(now, 10)
	b := s.client.B()
	drop := b.Zremrangebyscore().Key(s.key).Min("0").Max(strconv.FormatInt(now-s.window, 10)).Build()
	add := b.Zadd().Key(s.key).ScoreMember().ScoreMember(float64(now), at).Build()
	count := b.Zcard().Key(s.key).Build()
	commands, countIndex := []valkey.Completed{drop, count, add}, 1
	if addFirst {
		commands, countIndex = []valkey.Completed{drop, add, count}, 2
	}
	n, err := s.client.DoMulti(context.Background(), commands...)[countIndex].AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var zsetScriptText = valkey.NewLuaScript(`
	local now, limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
	redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
	if redis.call('ZCARD', KEYS[1]) >= limit then return 0 end
	redis.call('ZADD', KEYS[1], now, now .. ':' .. math.random())
	return 1`)

var twoKeysText = valkey.NewLuaScript(`
	local now, limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
	local prev, cur = tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(redis.call('GET', KEYS[1]) or 0)
	if math.floor((1 - now % window / window) * prev) + cur >= limit then return 0 end
	redis.call('INCRBY', KEYS[1], 1)
	return 1`)

func (s server) run(t *rapid.T, script *valkey.Lua, now int64, keys ...string) bool {
	reply, err := script.Exec(context.Background(), s.client, keys,
		[]string{strconv.FormatInt(now/millisecond, 10), strconv.FormatInt(s.limit, 10),
			strconv.FormatInt(s.window/millisecond, 10)}).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return reply == 1
}

func (s server) twoKeys(t *rapid.T, now int64) bool {
	index := now / s.window
	name := s.key + ":" // so that no other history has the same keys
	return s.run(t, twoKeysText, now, name+strconv.FormatInt(index, 10), name+strconv.FormatInt(index-1, 10))
}

// Our implementations of published limiters make the same decisions as the published
// commands on a real server.
func TestImplementationsEqualCommands(t *testing.T) {
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{strings.TrimPrefix(valkeytest.Start(t), "valkey://")}, DisableCache: true,
		ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for name, decides := range map[string]func(server, *rapid.T, int64) bool{
		ZSETPipeline: func(s server, t *rapid.T, now int64) bool { return s.zset(t, now, false) < s.limit },
		ZSETAll:      func(s server, t *rapid.T, now int64) bool { return s.zset(t, now, true) <= s.limit },
		ZSETScript: func(s server, t *rapid.T, now int64) bool {
			return s.run(t, zsetScriptText, now, s.key)
		},
		TwoWindow: server.twoKeys,
	} {
		t.Run(name, func(t *testing.T) {
			histories := 0
			rapid.Check(t, func(t *rapid.T) {
				histories++
				limit, window := rapid.Int64Range(1, 12).Draw(t, "limit"),
					rapid.Int64Range(1, 40).Draw(t, "window")*millisecond
				s := server{client, limit, window, name + strconv.Itoa(histories)}
				ours := named(name).build([]bound{{s.limit, s.window}})
				for _, c := range drawCalls(t, 1, s.window) {
					at := begin(s.window) + c.At
					if got, want := ours.Take(at, 1), decides(s, t, at); got != want {
						t.Fatalf("call at +%d µs: got allowed %t, want %t as on the server; limit %d in "+
							"%d µs", c.At, got, want, s.limit, s.window)
					}
				}
			})
		})
	}
}

func named(name string) Algorithm {
	for _, c := range published {
		if c.Name == name {
			return c
		}
	}
	return Algorithm{}
}

// boundaryWithClock runs the boundary attack on a limit of 100 with a clock's resolution.
func boundaryWithClock(clock time.Duration) Result {
	return compare(Scenario{Limit: 100, Window: time.Minute,
		Traffic: Traffic{Shape: Boundary, Rate: 1000, Windows: 8}, Clock: clock})
}

// stored is the outcome of a log in a sorted set with the maximum of its entries.
type stored struct {
	Outcome
	stored int64
}

// watched is a log in a sorted set that remembers the maximum of its entries.
type watched struct {
	decider
	most *int64
}

func (w watched) Take(now, cost int64) bool {
	allowed := w.decider.Take(now, cost)
	*w.most = max(*w.most, int64(w.decider.(interface{ stored() int }).stored()))
	return allowed
}

// flood runs calls at rate, in percent of a limit of 100, through the ZSET logs. It returns
// what the exact log admits, and their outcomes.
func flood(rate int64) (exact int64, outcomes []stored) {
	r := newRun(Scenario{
		Limit: 100, Window: time.Minute, Traffic: Traffic{Shape: Greedy, Rate: rate, Windows: 2},
	})
	for _, admitted := range r.exact {
		if admitted {
			exact++
		}
	}
	for _, name := range []string{ZSETScript, ZSETPipeline, ZSETAll} {
		most, a := int64(0), named(name)
		build := a.build
		a.build = func(limits []bound) decider { return watched{build(limits), &most} }
		o := r.play(a)
		outcomes = append(outcomes, stored{o, most})
	}
	return exact, outcomes
}

// If the time is the member, all calls of one tick are one entry, and all are admitted.
// Our logs count calls with equal times.
func TestEqualTimes(t *testing.T) {
	const limit = 100
	tick := Traffic{Shape: Recorded}
	for range 10 * limit {
		tick.Calls = append(tick.Calls, Call{At: 60_000_000, Cost: 1})
	}
	r := compare(Scenario{Limit: limit, Window: time.Minute, Traffic: tick})
	for name, want := range map[string]int64{
		Log: limit, LogGrouped: limit, LogCountDenied: limit, Counter: limit, TokenBucket: limit,
		FixedWindow: limit,
		TwoWindow:   limit, TwoWindowAll: limit, ZSETScript: limit, ZSETPipeline: 10 * limit,
		ZSETAll: 10 * limit,
	} {
		if o := r.of(t, name); o.Admitted != want {
			t.Errorf("%s: got %d of %d calls in one tick admitted, want %d", name, o.Admitted, 10*limit, want)
		}
	}
}

// With a clock of milliseconds, the ZSET logs whose members are times admit more than
// twice the limit in the boundary attack. Our logs admit at most the limit with any
// clock.
func TestCoarseClock(t *testing.T) {
	fine, coarse := boundaryWithClock(0), boundaryWithClock(time.Millisecond)
	for _, name := range []string{ZSETPipeline, ZSETAll} {
		if worst := fine.of(t, name).Worst; worst > 100 {
			t.Errorf("%s: got worst rolling window %d with a clock of 1µs, want at most 100", name, worst)
		}
		if worst := coarse.of(t, name).Worst; worst <= 200 {
			t.Errorf("%s: got worst rolling window %d with a clock of 1ms, want over 200", name, worst)
		}
	}
	for _, clock := range []time.Duration{time.Millisecond, coarseClock, time.Second} {
		r := boundaryWithClock(clock)
		for _, name := range []string{Log, LogGrouped, LogCountDenied} {
			if worst := r.of(t, name).Worst; worst > 100 {
				t.Errorf("%s: got worst rolling window %d with a clock of %s, want at most 100", name, worst,
					clock)
			}
		}
	}
}

// The stored entries of a log that stores denied calls grow with the flood, not with the
// limit. It admits calls only in the first window.
func TestDeniedFlood(t *testing.T) {
	exact, outcomes := flood(100_000)
	want := map[string]stored{ZSETScript: {Outcome{Admitted: 200}, 100},
		ZSETPipeline: {Outcome{Admitted: 100}, 100_000}, ZSETAll: {Outcome{Admitted: 100}, 100_000}}
	for _, o := range outcomes {
		if w := want[o.Name]; o.stored != w.stored || o.Admitted != w.Admitted {
			t.Errorf("%s: got %d admitted and at most %d stored entries, want %d and %d", o.Name, o.Admitted,
				o.stored, w.Admitted, w.stored)
		}
	}
	if exact != 200 {
		t.Errorf("exact log: got %d admitted in two windows, want 200", exact)
	}
}
