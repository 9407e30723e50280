package records

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// server is a Valkey whose work is measured.
type server struct {
	t      testing.TB
	root   valkey.Client
	client valkey.Client // as a check function's
}

func measured(t testing.TB) *server {
	t.Helper()
	url := valkeytest.Start(t)
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &server{t, storetest.Connect(t, url), client}
}

// figures of a server, from INFO.
type figures struct{ commands, bytes, cpuMicros, memory float64 }

func (s *server) figures() figures {
	s.t.Helper()
	info, err := s.root.Do(s.t.Context(), s.root.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	number := func(name string) float64 {
		found := regexp.MustCompile(name + `:([0-9.]+)`).FindStringSubmatch(info)
		if found == nil {
			s.t.Fatalf("INFO has no %s", name)
		}
		n, _ := strconv.ParseFloat(found[1], 64)
		return n
	}
	return figures{number("total_commands_processed"), number("total_net_input_bytes"),
		1e6 * (number("used_cpu_sys_main_thread") +
			number("used_cpu_user_main_thread")), number("used_memory")}
}

// load is calls of 100 environments.
type load struct {
	name    string
	rate    int // calls a second and environment; 0 for scripts
	denied  int // of 10 calls
	callers int // of an environment, of 20,000
}

const environments = 100

// BenchmarkRecorded measures what recording costs the server. Each call leaves after its
// answer. The operation evalsha is the unit: a script that does nothing, with one key.
func BenchmarkRecorded(b *testing.B) {
	for _, l := range []load{
		{"evalsha", 0, 0, 1}, {"10", 10, 0, 50}, {"200", 200, 0, 50}, {"10_denied", 10, 8, 50},
		{"200_denied", 200, 8, 50}, {"200_one_caller", 200, 0, 1},
	} {
		b.Run(l.name, func(b *testing.B) {
			s := measured(b)
			round := s.rounds(l)
			for range 60 * l.rate / 2 { // half a minute
				round()
			}
			before := s.figures()
			b.ResetTimer()
			for range b.N {
				round()
			}
			b.StopTimer()
			after, calls := s.figures(), float64(b.N*environments)
			b.ReportMetric((after.commands-before.commands)/calls, "commands/call")
			b.ReportMetric((after.bytes-before.bytes)/calls, "B/call")
			b.ReportMetric((after.cpuMicros-before.cpuMicros)/calls, "server-µs/call")
		})
	}
}

// rounds returns a function that makes one call of each environment.
func (s *server) rounds(l load) func() {
	clock, made := &clock{now: recent()}, 0
	recorders := make([]*Recorder, environments)
	for i := range recorders {
		recorders[i] = NewRecorder(clock.Now)
	}
	script := valkey.NewLuaScript("return 1")
	send := func(i int) error { return recorders[i].Send(s.t.Context(), s.client).Err }
	if l.rate == 0 {
		send = func(int) error {
			return script.Exec(s.t.Context(), s.client, []string{"{bench}"},
				nil).Error()
		}
	}
	return func() {
		clock.set(clock.Now().Add(time.Second / time.Duration(max(l.rate, 1))))
		for i, r := range recorders {
			made++
			c := Call{Caller: fmt.Sprintf("caller%06d", (i*7919+made/environments%l.callers*397)%20000),
				Registered: true, Cost: 1, Time: clock.Now(), Plan: "pro", Routes: []string{"orders"},
				Request: fmt.Sprint("request-", made)}
			if made%10 < l.denied {
				c.Cause, c.Limit, c.RetryAfter = cause.Limit, "600 per minute", 30*time.Second
			}
			if l.rate > 0 {
				r.Record(c)
			}
		}
		const inFlight = 50
		var wait sync.WaitGroup
		for part := range inFlight {
			wait.Go(func() {
				for i := part; i < environments; i += inFlight {
					if err := send(i); err != nil {
						s.t.Error(err)
					}
				}
			})
		}
		wait.Wait()
	}
}

// BenchmarkHostileHour measures the memory of an hour in which 10^5 new addresses make 10^6
// denied calls, in 100 environments, beside a registered caller.
func BenchmarkHostileHour(b *testing.B) {
	const addresses, calls = 100_000, 1_000_000
	for b.Loop() {
		s := measured(b)
		clock := &clock{now: recent()}
		recorders := make([]*Recorder, environments)
		for i := range recorders {
			recorders[i] = NewRecorder(clock.Now)
		}
		before := s.figures()
		for i := range calls {
			clock.set(clock.Now().Add(time.Hour / calls))
			e := recorders[i%environments]
			id := i * 31 % addresses // each comes back, to other environments too
			e.Record(Call{Caller: fmt.Sprintf("%022d", id), Time: clock.Now(), Cause: cause.Limit,
				Limit: "10 per minute, each address", RetryAfter: 30 * time.Second, Plan: "address",
				Request: fmt.Sprintf("%08x-0000-4000-8000-000000000000",
					i), Method: "GET", Path: "/orders/{id}",
				API: "a1b2c3d4e5", Stage: "prod", Network: netip.MustParsePrefix("203.0.113.0/24")})
			if report := e.Send(b.Context(), s.client); report.Err != nil {
				b.Fatal(report.Err)
			}
		}
		after := s.figures()
		b.ReportMetric((after.memory-before.memory)/(1<<20), "MiB")
		b.ReportMetric((after.commands-before.commands)/calls, "commands/call")
	}
}

// BenchmarkRecord measures what the environment does for a call: it records the call, and
// every 4th call, as at 200 calls a second, takes a batch.
func BenchmarkRecord(b *testing.B) {
	clock := &clock{now: recent()}
	r := NewRecorder(clock.Now)
	b.ReportAllocs()
	for i := range b.N {
		clock.set(clock.Now().Add(5 * time.Millisecond))
		r.Record(Call{Caller: "caller", Registered: true, Cost: 1, Time: clock.Now(), Plan: "pro",
			Routes: []string{"orders"}})
		if i%4 == 0 {
			r.drain(clock.Now())
		}
	}
}
