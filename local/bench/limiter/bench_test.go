package limiter

import (
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/local/bench"
	local "tidegate/local/valkey"
)

// Contenders take turns in rounds, so that a disturbance of the machine affects all of
// them, and old and new code can be compared in one run.
var (
	rounds  = flag.Int("rounds", 1, "turns of each contender")
	callers = flag.Int("callers", 1_000, "callers of a contender, most of which are small")
	server  = flag.String("server", "valkey-server", "command that starts the server")
)

// arena has the server of a benchmark, and the contenders on it.
type arena struct {
	*site
	all   []*contender
	node  valkey.Client
	turn  time.Time // when a window begins
	pipes pipes
}

// minWindow is the minimum length of a window: none may end before the benchmark does.
const minWindow = 8 * time.Minute

// windowFrom returns the length of windows, aligned to the epoch, of which one begins
// within half a second after an instant, and when that is.
func windowFrom(at time.Time) (window time.Duration, turn time.Time) {
	for millis := minWindow.Milliseconds(); ; millis++ {
		if wait := millis - at.UnixMilli()%millis; wait < 500 {
			return time.Duration(millis) * time.Millisecond, at.Add(time.Duration(wait) * time.Millisecond)
		}
	}
}

// enter starts a server and connects the contenders. A window begins after the lead.
func enter(b *testing.B, lead time.Duration) *arena {
	started, err := local.ByCommand(b.Context(), strings.Fields(*server), "--databases", "32")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(started.Close)
	// The client collects garbage less often, so that the server remains the bottleneck.
	old := debug.SetGCPercent(400)
	b.Cleanup(func() { debug.SetGCPercent(old) })
	a := &arena{site: &site{address: started.Address()}, all: contenders()}
	a.window, a.turn = windowFrom(time.Now().Add(lead))
	b.Cleanup(a.close)
	if a.node, err = bench.Dial(started.Address()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.node.Close)
	if err := a.open(a.all); err != nil {
		b.Fatal(err)
	}
	if a.pipes, err = openPipes(a.site); err != nil {
		b.Fatal(err)
	}
	for _, c := range a.all { // no later call has to load a script
		if _, err := c.allowed(b.Context(), nameOf('w', 0)); err != nil {
			b.Fatal(c.name, err)
		}
	}
	return a
}

// inBothWindows fills contenders that count the calls of the previous window, awaits the
// new window, and fills all.
func (a *arena) inBothWindows(b *testing.B, fill func(*contender)) {
	for _, c := range a.all {
		if c.windows {
			fill(c)
		}
	}
	if time.Now().After(a.turn) {
		b.Fatal("the machine is too busy: the window began before the previous one was filled")
	}
	time.Sleep(time.Until(a.turn))
	for _, c := range a.all {
		fill(c)
	}
}

// verdicts returns the calls of a contender: those that are allowed, and those that are
// denied if it denies any.
func verdicts(c *contender) []verdict {
	all := []verdict{{"allowed", c.allowed}}
	if c.denied != nil {
		all = append(all, verdict{"denied", c.denied})
	}
	return all
}

type verdict struct {
	name string
	take take
}

// caller returns the name of a caller whose calls get the verdict.
func (v verdict) caller(i int) string { return nameOf(v.name[0], i) }

// copied returns the name of a caller whose state others get.
func (v verdict) copied(level int) string { return v.caller(9_000_000 + level) }

func call(b *testing.B, one take, caller string) bool {
	b.Helper()
	allowed, err := one(b.Context(), caller)
	if err != nil {
		b.Fatal(err)
	}
	return allowed
}

// BenchmarkSaturated measures a server that is always busy: the bytes that a library
// sends for one caller are sent for many, on a few connections.
func BenchmarkSaturated(b *testing.B) {
	a := enter(b, 5*time.Second)
	a.inBothWindows(b, func(c *contender) { a.populate(b, c) })
	for round := range *rounds {
		for _, c := range a.all {
			for _, v := range verdicts(c) {
				b.Run(fmt.Sprintf("round=%d/%s/%s", round+1, c.name, v.name), func(b *testing.B) {
					a.saturate(b, c, v, round)
				})
			}
		}
	}
}

// levels is the number of different counts among the callers whose calls are allowed.
const levels = 16

// populate makes the calls of a few callers of each verdict, and copies their state to
// all callers.
func (a *arena) populate(b *testing.B, c *contender) {
	for _, v := range verdicts(c) {
		from := levels
		if v.name == "denied" {
			for from = 1; call(b, v.take, v.copied(0)); {
			}
		}
		for level := range from {
			for i := c.from + (c.to-c.from)*int64(level)/(levels-1); v.name == "allowed" && i > 0; i-- {
				call(b, v.take, v.copied(level))
			}
			a.copyState(b, c, v, level, from)
		}
	}
}

// copyState copies the keys of one caller to those of every stride-th caller.
func (a *arena) copyState(b *testing.B, c *contender, v verdict, level, stride int) {
	t := record(b, c, v, level)
	if t.place == "" {
		return
	}
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{a.address},
		SelectDB: c.database, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	keys, err := client.Do(b.Context(), client.B().Keys().Pattern("*"+t.place+"*").Build()).AsStrSlice()
	if err != nil {
		b.Fatal(err)
	}
	var copies [][]byte
	for _, key := range keys {
		for i := level; i < c.callers(); i += stride {
			to := strings.ReplaceAll(key, t.place, v.caller(i))
			const format = "*4\r\n$4\r\nCOPY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$7\r\nREPLACE\r\n"
			copies = append(copies, fmt.Appendf(nil, format, len(key), key, len(to), to))
		}
	}
	if err := errors.Join(a.pipes.choose(c.database), a.pipes.send(copies, 1)); err != nil {
		b.Fatal(err)
	}
}

func record(b *testing.B, c *contender, v verdict, level int) template {
	b.Helper()
	t, err := c.recorder.record(v.copied(level), func() error {
		_, err := v.take(b.Context(), v.copied(level))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// saturate makes b.N checks, by different callers.
func (a *arena) saturate(b *testing.B, c *contender, v verdict, round int) {
	b.StopTimer()
	b.ResetTimer()
	t := record(b, c, v, 0)
	var checks [][]byte
	last := ""
	for i := range b.N {
		last = v.caller((round*b.N + i) % c.callers())
		checks = append(checks, t.forCaller(last))
	}
	if err := a.pipes.choose(c.database); err != nil {
		b.Fatal(err)
	}
	work, err := bench.During(b.Context(), []valkey.Client{a.node}, func() error {
		b.StartTimer()
		defer b.StopTimer()
		return a.pipes.send(checks, t.commands)
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric(float64(serverTime(work[0]).Nanoseconds())/float64(b.N), "server-ns/op")
	// The library calls once more as the last caller, and reads the verdict.
	c.recorder.set(false, t.place, last)
	defer c.recorder.set(false, "", "")
	if allowed := call(b, v.take, v.copied(0)); allowed != (v.name == "allowed") {
		b.Fatalf("allowed is %t", allowed)
	}
}

// serverTime returns the time of the contenders' commands. A script's time includes its
// commands.
func serverTime(w bench.Work) time.Duration {
	if calls, took := w.Of("evalsha"); calls > 0 {
		return took
	}
	_, took := w.Of("ping", "incrby", "expire")
	return took
}

// BenchmarkOneInFlight measures calls one by one through the contender's own library, each
// followed by a PING. A caller makes half as many calls as its limit.
func BenchmarkOneInFlight(b *testing.B) {
	a := enter(b, 0)
	made := map[*contender]int64{}
	for round := range *rounds {
		for _, c := range a.all {
			b.Run(fmt.Sprintf("round=%d/%s", round+1, c.name), func(b *testing.B) {
				var calls, pings []time.Duration
				for range b.N {
					caller := nameOf('o', int(made[c]/max(1, c.most/2)))
					made[c]++
					began := time.Now()
					if !call(b, c.allowed, caller) {
						b.Fatal("denied")
					}
					answered := time.Now()
					if err := c.ping(b.Context()); err != nil {
						b.Fatal(err)
					}
					calls, pings = append(calls, answered.Sub(began)), append(pings, time.Since(answered))
				}
				b.ReportMetric(float64(bench.Median(calls)), "p50-ns")
				b.ReportMetric(float64(bench.Median(pings)), "ping-p50-ns")
				caller := nameOf('n', round)
				allocations := testing.AllocsPerRun(10, func() { call(b, c.allowed, caller) })
				b.ReportMetric(allocations, "allocs/call") // allocs/op needs -benchmem, and counts PINGs
				b.ReportMetric(0, "ns/op")                 // of both
			})
		}
	}
}

// BenchmarkMemory measures the bytes of a caller that has used up its limit.
func BenchmarkMemory(b *testing.B) {
	a := enter(b, 20*time.Second)
	bytes := map[*contender]float64{}
	a.inBothWindows(b, func(c *contender) {
		calls, n := c.to, c.callers() // more calls take no more bytes, but of a log
		if c.full > 1 {
			calls = c.most
		}
		if calls > 1 {
			n = max(1, n/20)
		}
		before := a.memory(b)
		for i := range n {
			for range calls {
				call(b, c.allowed, nameOf('m', i))
			}
		}
		bytes[c] += float64(a.memory(b)-before) / float64(n)
	})
	for _, c := range a.all {
		if c.denied == nil {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportMetric(bytes[c], "B/caller")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// callers returns the number of the contender's callers.
func (c *contender) callers() int { return max(1, *callers/c.fewer) }

func (a *arena) memory(b *testing.B) int64 {
	used, err := bench.Memory(b.Context(), a.node)
	if err != nil {
		b.Fatal(err)
	}
	return used
}
