package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serverCommand returns the command of the server. Without a server it skips the test, or
// fails it in CI.
func serverCommand(t *testing.T) []string {
	t.Helper()
	name := os.Getenv("VALKEY_SERVER")
	if name == "" {
		name = "valkey-server"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return []string{path}
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf("this test needs valkey-server: %v; scripts/install-test-tools installs it", err)
	}
	t.Skipf("this test needs valkey-server: %v; scripts/install-test-tools installs it", err)
	return nil
}

// tiny has options that send every kind of command.
func tiny(t *testing.T) options {
	return options{keys: 64, slice: 256, pairs: 5, repeats: 2, lead: 300 * time.Millisecond,
		server: serverCommand(t)}
}

func newHarness(t *testing.T) (*harness, *server) {
	t.Helper()
	server, err := start(t.Context(), serverCommand(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.stop)
	// No window ends during the test.
	window, _ := windowFrom(time.Now().Add(minWindow / 2))
	h := &harness{address: server.Address(), window: window, keys: 64}
	t.Cleanup(h.close)
	return h, server
}

// Every limiter in the comparison allows as many calls as its limit, and no more.
func TestEveryLimiterLimits(t *testing.T) {
	h, _ := newHarness(t)
	limiters, err := choose(h, options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range limiters {
		if c.denied == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if c.denied.fill != nil {
				expectAllowed(t, c.denied, subject(freshSubjects, 1), c.denied.to-5, 5)
				return
			}
			expectAllowed(t, c.denied, subject(freshSubjects, 1), 0, denyLimit)
			expectAllowed(t, c.allowed, subject(freshSubjects, 2), 0, limit)
			if c.allowed.fill != nil {
				expectAllowed(t, c.allowed, subject(freshSubjects, 3), bucketFill, limit-bucketFill)
			}
		})
	}
}

// expectAllowed fills the subject with calls and checks that want more calls are allowed,
// and none after them.
func expectAllowed(t *testing.T, c *check, subject string, filled, want int) {
	t.Helper()
	if filled > 0 {
		if err := c.fill(t.Context(), subject, filled); err != nil {
			t.Fatal(err)
		}
	}
	var verdicts []bool
	for range want + 5 {
		allowed, err := c.take(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		verdicts = append(verdicts, allowed)
	}
	got := slices.Index(verdicts, false)
	if got != want || slices.Contains(verdicts[want:], true) {
		t.Errorf("after %d calls: verdicts %v, want %d allowed and then none", filled, verdicts, want)
	}
}

// A run measures and reports every limiter. saturate and callOneByOne return an error if
// a check gets another verdict than its subject was prepared for.
func TestRun(t *testing.T) {
	o := tiny(t)
	m, err := measure(t.Context(), o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := summarize(m)
	r.print(io.Discard)
	values := map[string]float64{}
	for _, f := range r.figures {
		if _, twice := values[f.Name]; twice || f.Unit == "" {
			t.Errorf("got figure %+v (reported before: %v), want each once and with a unit", f, twice)
		}
		values[f.Name] = f.Value
	}
	for _, c := range m.limiters {
		want := []string{"rate", "rate_vs_evalsha", "p50_us", "p99_vs_ping"}
		if c.denied != nil {
			want = append(want, "denied_rate_vs_evalsha", "denied_p50_vs_ping", "bytes")
		}
		for _, what := range want {
			// The server's other allocations exceed the bytes of so few subjects.
			if v, found := values["limiter."+c.name+"."+what]; !found || v <= 0 && what != "bytes" {
				t.Errorf("limiter.%s.%s: got %v, want more than 0", c.name, what, v)
			}
		}
	}
	for name := range bounds {
		if _, found := values[name]; !found {
			t.Errorf("bound of %s: want a figure", name)
		}
	}
}

// A slice with unexpected verdicts gives an error, not a figure.
func TestSaturateRefusesUnexpectedVerdicts(t *testing.T) {
	h, server := newHarness(t)
	o := tiny(t)
	limiters, err := ours(h)
	if err != nil {
		t.Fatal(err)
	}
	pipes, err := openPipes(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.close()
	b := &bench{
		measurement: &measurement{options: o, bytes: map[*measuredLimiter]float64{}},
		server:      server, pipes: pipes,
		pings:    pingLoad(),
		subjects: []string{subject(librarySubjects, 0)}, progress: io.Discard,
	}
	c := limiters[0]
	steps := []func(context.Context, *measuredLimiter) error{b.warm, b.populate, b.populateLibrary}
	for _, step := range steps {
		if err := step(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.probe(); err != nil {
		t.Fatal(err)
	}
	for _, rejected := range []scenario{
		{check: spread.check, purpose: deniedSubjects, allowed: true},
		{check: denied.check, purpose: allowedSubjects},
	} {
		if err := b.saturate(t.Context(), c, rejected, 0); !errors.Is(err, errVerdict) {
			t.Errorf("allowed %v: got %v, want %v", rejected.allowed, err, errVerdict)
		}
	}
	if len(b.slices) > 0 {
		t.Errorf("got slices %v after unexpected verdicts, want none", b.slices)
	}
	if err := b.saturate(t.Context(), c, denied, 0); err != nil || len(b.slices) != 1 {
		t.Errorf("got %d slices and %v after expected verdicts, want 1", len(b.slices), err)
	}
}

// send returns the server's error.
func TestSendReturnsServerErrors(t *testing.T) {
	_, server := newHarness(t)
	pipes, err := openPipes(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.close()
	l := &load{}
	for range 3 * depth {
		l.add(template{bytes: []byte("*1\r\n$4\r\nNOPE\r\n"), commands: []string{"nope"}}, "")
	}
	if _, err := pipes.send(l, nil); !errors.Is(err, errReply) {
		t.Errorf("got %v, want %v", err, errReply)
	}
}

func TestStartReportsWhatTheServerWrote(t *testing.T) {
	s, err := start(t.Context(), append(serverCommand(t), "--no-such-setting", "1"))
	if err == nil {
		s.stop()
	}
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, want the server's own message", err)
	}
}

// attempt returns errLate if the windows begin before the preparation is done.
func TestLateWindows(t *testing.T) {
	o := tiny(t)
	server, err := start(t.Context(), o.server)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	if _, err := attempt(t.Context(), server, o, -time.Minute, io.Discard); !errors.Is(err, errLate) {
		t.Errorf("got %v, want %v", err, errLate)
	}
}

func TestWindowFrom(t *testing.T) {
	for i := range int64(50) {
		at := time.UnixMilli(1_763_000_000_000 + i*86_399_999)
		window, turn := windowFrom(at)
		if window < minWindow || window > 2*minWindow || window%time.Millisecond != 0 {
			t.Errorf("at %v: window %v", at, window)
		}
		if wait := turn.Sub(at); wait <= 0 || wait > time.Second ||
			turn.UnixMilli()%window.Milliseconds() != 0 {
			t.Errorf("at %v: the window begins after %v", at, wait)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-short", "-only", "^log", "-o", "f", "-server",
		"taskset -c 0 valkey-server"}, io.Discard)
	if err != nil || o.repeats != 3 || o.keys != 10_000 || o.output != "f" || !o.only.MatchString("log100") ||
		o.only.MatchString("three_logs") ||
		!slices.Equal(o.server, []string{"taskset", "-c", "0", "valkey-server"}) {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, rejected := range [][]string{{"-only", "("}, {"-unknown"}, {"more"}} {
		if _, err := parse(rejected, io.Discard); err == nil {
			t.Errorf("%v: no error", rejected)
		}
	}
}
