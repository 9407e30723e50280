package records

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// clock is set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// recent returns a time near the server's, since the entries of a stream have its time.
func recent() time.Time { return time.Now().UTC().Truncate(time.Hour) }

// writer is the rights that a Recorder needs: no scripts, nothing of the configuration.
var writer = []string{
	"on", "-@all", "+ping", "+time", "+cluster|slots", "+cluster|shards", "~tg:{*}:*:m[0-9]*",
	"~tg:{*}:*:h[0-9]*", "~tg:{*}:*:denied", "~tg:{*}:records-*", "+hincrby", "+hset", "+hsetnx", "+set",
	"+expire", "+zadd", "+zincrby", "+zremrangebyscore", "+zremrangebyrank", "+xadd", "+pfadd", "+pfcount",
}

// reading is the rights that a Reader needs.
var reading = []string{"on", "-@all", "+ping", "+cluster|slots", "+cluster|shards", "+@read", "~tg:{*}:*"}

// world is a server with environments that record and a reader.
type world struct {
	t      testing.TB
	url    string
	writes valkey.Client
	reader *Reader
	clock  *clock
	envs   []*environment
	// counted are the calls that have left, in the order in which they were counted.
	counted []Call
}

func newWorld(t testing.TB, url string, environments int) *world {
	t.Helper()
	w := &world{t: t, url: url, clock: &clock{now: recent()},
		writes: storetest.Connect(t, valkeytest.As(t, url, "check", writer))}
	w.reader = NewReader(storetest.Connect(t, valkeytest.As(t, url, "admin", reading)), w.clock.Now)
	for range environments {
		w.envs = append(w.envs, &environment{w: w, Recorder: NewRecorder(w.clock.Now)})
	}
	return w
}

func onServers(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	storetest.OnEveryServer(t, test)
}

// environment is one environment of the check function.
type environment struct {
	*Recorder

	w    *world
	held []Call // recorded and not sent
}

// call records a call, and sends what is due after its answer, as a check function does.
// Then the environment sleeps. It fails the test if the environment holds more than calls
// of the last 20 ms.
func (e *environment) call(c Call) {
	e.w.t.Helper()
	e.record(c)
	e.wake()
	for _, held := range e.held {
		age, most := c.Time.Sub(held.Time), 20*time.Millisecond
		if held.Caller == "" {
			most = time.Second
		}
		if age >= most {
			e.w.t.Fatalf("the environment holds a call of %s ago, want at most %s", age, most)
		}
	}
}

func (e *environment) record(c Call) {
	e.w.clock.set(c.Time)
	e.Record(c)
	e.held = append(e.held, c)
}

// wake sends what is due.
func (e *environment) wake() {
	e.w.t.Helper()
	e.settle(e.Send(e.w.t.Context(), e.w.writes))
}

// ride sends what is due with the commands of a check, whose answer comes with theirs.
func (e *environment) ride(at time.Time) {
	e.w.t.Helper()
	e.w.clock.set(at)
	b := e.Batch(at)
	if b == nil {
		return
	}
	commands := b.Commands(e.w.writes)
	other := e.w.writes.B().Expire().Key(listKey(1, "of a check")).Seconds(1).Build()
	results := e.w.writes.DoMulti(e.w.t.Context(), append(commands, other)...)
	if report := b.Acknowledge(results[:len(commands)]); report != (Report{}) {
		e.w.t.Fatalf("ride: %+v", report)
	}
	e.wake()
}

// end sends everything, since the environment ends.
func (e *environment) end() {
	e.w.t.Helper()
	e.settle(e.Flush(context.WithoutCancel(e.w.t.Context()), e.w.writes))
}

func (e *environment) settle(report Report) {
	e.w.t.Helper()
	if report != (Report{}) {
		e.w.t.Fatalf("send: %+v", report)
	}
	if e.pending.empty() {
		e.w.counted = append(e.w.counted, e.held...)
		e.held = nil
	}
}

// noExpiry returns the keys without a time to live, and the number of all keys.
func (w *world) noExpiry() (keys []string, all int) {
	w.t.Helper()
	root := storetest.Connect(w.t, w.url)
	names, err := root.Do(w.t.Context(), root.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, key := range names {
		ttl, err := root.Do(w.t.Context(), root.B().Ttl().Key(key).Build()).AsInt64()
		if err != nil {
			w.t.Fatal(err)
		}
		if ttl <= 0 {
			keys = append(keys, key)
		}
	}
	return keys, len(names)
}

// day returns a day in the zone of now: today, or a number of days before it.
func day(before int, step time.Duration, now time.Time) Range {
	year, month, date := now.Date()
	at := func(date int) time.Time { return time.Date(year, month, date, 0, 0, 0, 0, now.Location()) }
	return Range{at(date - before), at(date - before + 1), step}
}
