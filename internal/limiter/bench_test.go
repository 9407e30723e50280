package limiter

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// wire is a connection that sends encoded commands, so that the server does most of the
// work.
type wire struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func newWire(t testing.TB, url string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "valkey://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t, conn, bufio.NewReaderSize(conn, 1<<20)}
}

func encoded(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// skip reads one reply, and returns its first line.
func (w *wire) skip() string {
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	line = strings.TrimSpace(line)
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '$':
		if n >= 0 {
			_, _ = w.in.Discard(n + 2)
		}
	case '*':
		for range n {
			w.skip()
		}
	case '-':
		w.t.Fatal(line)
	}
	return line
}

// send sends commands, 64 in flight.
func (w *wire) send(commands ...string) {
	for len(commands) > 0 {
		now := min(len(commands), 64)
		if _, err := w.Write([]byte(strings.Join(commands[:now], ""))); err != nil {
			w.t.Fatal(err)
		}
		for _, c := range commands[:now] {
			for range replies(c) {
				w.skip()
			}
		}
		commands = commands[now:]
	}
}

// spent returns the processor time that the server has spent (microseconds).
func spent(t testing.TB, url string) (sum float64) {
	info := valkeytest.Ask(t, url, "INFO", "cpu")
	for _, line := range strings.Fields(info) {
		name, text, _ := strings.Cut(line, ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			v, _ := strconv.ParseFloat(text, 64)
			sum += v * 1e6
		}
	}
	return sum
}

// contender is one of several scripts that are measured in turns.
type contender struct {
	name    string
	command func(key, turn int) string // a call on one of the keys
}

// keys is the number of keys that each contender calls in a turn.
const keys = 100

// turns measures contenders in turns, and reports the processor time of the server for a
// call of each.
func turns(b *testing.B, url string, contenders ...contender) {
	w := newWire(b, url)
	total := make([]float64, len(contenders))
	for turn := 0; b.Loop(); turn++ {
		for i, c := range contenders {
			commands := make([]string, keys)
			for key := range commands {
				commands[key] = c.command(key, turn)
			}
			before := spent(b, url)
			w.send(commands...)
			total[i] += (spent(b, url) - before) / keys
		}
	}
	for i, c := range contenders {
		b.ReportMetric(total[i]/float64(b.N), c.name+"-µs")
	}
	b.ReportMetric(0, "ns/op")
}

func load(b *testing.B, url, text string) string {
	b.Helper()
	return valkeytest.Ask(b, url, "SCRIPT", "LOAD", text)
}

func applied(count string, limits ...Limit) Step {
	var all []Applied
	for _, l := range limits {
		a := Applied{Limit: l, Count: count, Cost: 1, Owner: "o"}
		all = append(all, a)
	}
	s, err := NewStep(all)
	if err != nil {
		panic(err)
	}
	return s
}

func evalsha(sha string, s Step) string {
	words := append([]string{"EVALSHA", sha, strconv.Itoa(len(s.States))}, s.Keys()...)
	return encoded(append(words, s.List(), "0", "0")...)
}

const day = 24 * time.Hour

var three = []Limit{exactly(100, time.Second), exactly(1000, time.Hour), exactly(50_000, day)}

// Each kind of check in turns with an EVALSHA that does nothing (E) and, for one log, the
// two counters that Upstash documents.
func BenchmarkCheck(b *testing.B) {
	url := valkeytest.Start(b)
	ours := load(b, url, StepScript(stepHead, returnReply))
	e := load(b, url, "return 1")
	counters := load(b, url, twoCounters)
	of := func(a Algorithm) Limit {
		return Limit{Requests: 1e9, Window: day, Algorithm: a}
	}
	for _, c := range []struct {
		name   string
		fill   int
		limits []Limit
	}{
		{"log100/allowed", 10, []Limit{exactly(100, day)}},
		{"log100/denied", 100, []Limit{exactly(100, day)}},
		{"three", 30, three},
		{"counter", 1, []Limit{of(Counter)}},
		{"bucket", 1, []Limit{of(TokenBucket)}},
		{"fixed", 1, []Limit{of(FixedWindow)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			key := func(kind string, k int) string { return fmt.Sprintf("{%s%s%d}", b.Name(), kind, k) }
			all := []contender{
				{"new", func(k, _ int) string { return evalsha(ours, applied(key("n", k), c.limits...)) }},
				{"E", func(k, _ int) string {
					return encoded("EVALSHA", e, "1", key("e", k), "100", "900000", "1")
				}},
				{"upstash", func(k, _ int) string {
					return encoded("EVALSHA", counters, "2", key("u", k)+"1", key("u", k)+"0", "100",
						"1764205000000", "900000", "1")
				}},
			}
			w := newWire(b, url)
			for range c.fill {
				for k := range keys {
					w.send(all[0].command(k, 0), all[2].command(k, 0))
				}
			}
			turns(b, url, all...)
		})
	}
}

// twoCounters is our rendering of the sliding window that Upstash documents, with the
// client's clock. KEYS: the counters of the present and the previous window. ARGV: limit,
// clock and window (milliseconds), cost.
const twoCounters = `local limit, now = tonumber(ARGV[1]), tonumber(ARGV[2])
local window, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local current = tonumber(redis.call('GET', KEYS[1]) or 0)
local previous = tonumber(redis.call('GET', KEYS[2]) or 0)
local carried = math.floor((1 - (now % window) / window) * previous)
if carried + current >= limit then return -1 end
local count = redis.call('INCRBY', KEYS[1], cost)
if count == cost then redis.call('PEXPIRE', KEYS[1], 2 * window + 1000) end
return limit - count - carried`

// grown returns the log of a caller that has made some n calls, one each gap, under limits.
func grown(n int, gap time.Duration, limits ...Limit) (state string, entries int) {
	m, s := &Model{}, applied("k", limits...)
	now := time.Now().Add(-time.Duration(n) * gap)
	var p *log
	for i := 0; i < n || p.full < int64(len(p.times))+30; i++ { // no rewrite is near
		m.step(s, now.UnixMicro(), true)
		p, now = m.states["k"].(*log), now.Add(gap)
	}
	return encode(p), len(p.times)
}

// Checks, settlements and rewrites of long logs.
func BenchmarkLongLog(b *testing.B) {
	url := valkeytest.Start(b)
	ours := load(b, url, StepScript(stepHead, returnReply))
	give := load(b, url, GiveScript(giveHead, returnReply))
	for _, c := range []struct {
		name   string
		calls  int
		gap    time.Duration
		limits []Limit
	}{
		{"100", 90, time.Second, []Limit{exactly(100, day)}},
		{"1000", 900, time.Second, []Limit{exactly(1000, day)}},
		{"10000", 12_000, 300 * time.Millisecond, []Limit{exactly(10_000, time.Hour)}},
		{"three", 60_000, 1440 * time.Millisecond, three},
		{"10-beside-1000000", 1_200_000, 3 * time.Millisecond,
			[]Limit{exactly(10, time.Second), exactly(1_000_000, time.Hour)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			state, entries := grown(c.calls, c.gap, c.limits...)
			b.Logf("%d entries, %d bytes", entries, len(state))
			w := newWire(b, url)
			key := func(k int) string { return fmt.Sprintf("{%s%d}", b.Name(), k) }
			for k := range keys {
				w.send(encoded("SET", key(k), state))
			}
			times := []int64{} // of the entries, newest last
			for i := 34; i < len(state); i += 12 {
				at := int64(0)
				for _, c := range []byte(state[i : i+7]) {
					at = at<<8 | int64(c)
				}
				times = append(times, at)
			}
			settle := func(calls int) contender {
				return contender{fmt.Sprintf("settled%d", calls), func(k, turn int) string {
					s := Settlement{At: times[max(1, len(times)-calls-turn)]}
					s.Changes = []Change{{State: applied(key(k), c.limits...).States[0], By: -1}}
					s.Changes[0].Rates = nil
					return encoded("EVALSHA", give, "1", key(k), s.List(), "0", "0", number(s.At))
				}}
			}
			rewritten := []byte(state)
			copy(rewritten[28:31], []byte{0, 0, 1}) // full: the next call rewrites
			copy(rewritten[31:34], appendInt(nil, int64(max(0, entries-2500)), 3))
			turns(b, url,
				contender{"call", func(k, _ int) string {
					return evalsha(ours, applied(key(k), c.limits...))
				}},
				settle(1), settle(100), settle(500),
				contender{"set", func(int, int) string { return encoded("SET", "{r}", string(rewritten)) }},
				contender{"set+rewrite", func(int, int) string {
					return encoded("SET", "{r}", string(rewritten)) +
						evalsha(ours, applied("{r}", c.limits...))
				}},
			)
		})
	}
}

// replies returns how many commands a text has.
func replies(text string) int {
	return strings.Count(text, "EVALSHA\r\n") + strings.Count(text, "\r\nSET\r\n")
}
