//go:build unix

package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidegate/internal/testing/built"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// binary returns the path of the test function.
func binary(t *testing.T) string {
	t.Helper()
	return built.Program(t, "tidegate/local/lambda/testdata/function")
}

type event struct {
	Do      string `json:"do"`
	Text    string `json:"text,omitempty"`
	Size    int    `json:"size,omitempty"`
	Address string `json:"address,omitempty"`
}

type answer struct {
	PID      int      `json:"pid"`
	Text     string   `json:"text"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	ARN      string   `json:"arn"`
	Trace    string   `json:"trace"`
	Deadline bool     `json:"deadline"`
}

func start(t *testing.T, c lambda.Config) *lambda.Function {
	t.Helper()
	if c.Name = "check"; c.Binary == "" {
		c.Binary = binary(t)
	}
	if c.Timeout == 0 {
		c.Timeout = waiting.Timeout
	}
	f, err := lambda.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func invoke(f *lambda.Function, e event) (answer, error) {
	payload, err := json.Marshal(e)
	if err != nil {
		return answer{}, err
	}
	out, err := f.Invoke(context.Background(), payload)
	if err != nil {
		return answer{}, err
	}
	var a answer
	return a, json.Unmarshal(out, &a)
}

func mustInvoke(t *testing.T, f *lambda.Function, e event) answer {
	t.Helper()
	a, err := invoke(f, e)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// A function gets Lambda's variables and its own, but none of the program that runs it.
func TestFunctionSeesOnlyItsEnvironment(t *testing.T) {
	t.Setenv("OUTSIDE", "1")
	program := binary(t)
	f := start(t, lambda.Config{Binary: program, Env: map[string]string{"OWN": "yes"}, Memory: 256})
	a := mustInvoke(t, f, event{Do: "env"})
	for _, want := range []string{"OWN=yes", "AWS_LAMBDA_FUNCTION_NAME=check",
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=us-east-1", "TZ=:UTC",
		"LAMBDA_TASK_ROOT=" + filepath.Dir(program)} {
		if !slices.Contains(a.Env, want) {
			t.Errorf("environment lacks %s: %q", want, a.Env)
		}
	}
	if slices.Contains(a.Env, "OUTSIDE=1") {
		t.Error("environment leaks variables of this program")
	}
	if a.Dir != filepath.Dir(program) ||
		a.ARN != "arn:aws:lambda:us-east-1:123456789012:function:check" || !a.Deadline {
		t.Errorf("dir %s, ARN %s, deadline %t", a.Dir, a.ARN, a.Deadline)
	}
	if !strings.HasPrefix(a.Trace, "Root=1-") || slices.ContainsFunc(a.Env, func(v string) bool {
		return v == "_X_AMZN_TRACE_ID="
	}) {
		t.Errorf("trace id %q", a.Trace)
	}
}

// Sequential invocations use one environment. An environment that has answered, but not
// yet asked for the next event, does not cause a second one.
func TestFunctionReusesItsEnvironment(t *testing.T) {
	f := start(t, lambda.Config{Concurrency: 1})
	first := mustInvoke(t, f, event{}).PID
	for range 50 {
		if pid := mustInvoke(t, f, event{}).PID; pid != first {
			t.Fatalf("invocation ran in process %d, want %d again", pid, first)
		}
	}
}

// A report has the instants of its invocation in order, and the process is the one that
// answered.
func TestFunctionReports(t *testing.T) {
	reports := make(chan lambda.Report, 2)
	f := start(t, lambda.Config{Report: func(r lambda.Report) { reports <- r }})
	for range cap(reports) {
		began := time.Now()
		pid := mustInvoke(t, f, event{}).PID
		r := waiting.For(t, "a report", reports)
		if r.PID != pid {
			t.Errorf("got process %d, want %d", r.PID, pid)
		}
		if !slices.IsSortedFunc([]time.Time{r.Started, r.Delivered, r.Answered, r.Done}, time.Time.Compare) ||
			r.Delivered.Before(began) {
			t.Errorf("got %+v, want instants in order, after %s", r, began)
		}
	}
}

// Invocations run in parallel up to the concurrency, each in its own process. One more is
// throttled, until one of them is answered.
func TestFunctionRunsInParallel(t *testing.T) {
	const n = 3
	f := start(t, lambda.Config{Concurrency: n})
	listener := listen(t)
	results := make(chan answer, n)
	for range n {
		go func() {
			a, err := invoke(f, event{Do: "meet", Address: listener.Addr().String()})
			if err != nil {
				t.Error(err)
			}
			results <- a
		}()
	}
	conns := accept(t, listener, n)
	if _, err := invoke(f, event{}); !errors.Is(err, lambda.ErrThrottled) {
		t.Errorf("all environments busy: got %v, want ErrThrottled", err)
	}
	closeAll(conns[:1])
	pids := map[int]bool{waiting.For(t, "a result", results).PID: true}
	again := mustInvoke(t, f, event{}).PID
	closeAll(conns[1:])
	for range n - 1 {
		pids[waiting.For(t, "a result", results).PID] = true
	}
	if len(pids) != n || !pids[again] {
		t.Errorf("processes %v, then %d: want %d processes, and one of them again", pids, again, n)
	}
}

func TestFunctionErrors(t *testing.T) {
	f := start(t, lambda.Config{})
	for _, c := range []struct {
		name  string
		event event
		check func(error) bool
		dies  bool
	}{
		{"error of the handler", event{Do: "fail", Text: "Unauthorized"}, func(err error) bool {
			var e *lambda.FunctionError
			return errors.As(err, &e) && e.Message == "Unauthorized" && e.Type == "errorString"
		}, false},
		{"panic", event{Do: "panic", Text: "boom"}, func(err error) bool {
			var e *lambda.FunctionError
			return errors.As(err, &e) && e.Message == "boom"
		}, true},
		{"exit", event{Do: "exit"}, func(err error) bool {
			var e *lambda.CrashError
			var exit *exec.ExitError
			return errors.As(err, &e) && errors.As(err, &exit) && exit.ExitCode() == 7
		}, true},
		{"response over 6 MB", event{Do: "big", Size: lambda.MaxPayload}, func(err error) bool {
			var e *lambda.ResponseError
			return errors.As(err, &e)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := mustInvoke(t, f, event{}).PID
			_, err := invoke(f, c.event)
			if err == nil || !c.check(err) {
				t.Fatalf("got %v", err)
			}
			after := mustInvoke(t, f, event{}).PID
			if died := after != before; died != c.dies {
				t.Errorf("environment replaced: %t, want %t", died, c.dies)
			}
		})
	}
}

func TestFunctionAcceptsResponsesUpToTheLimit(t *testing.T) {
	f := start(t, lambda.Config{})
	payload, _ := json.Marshal(event{Do: "big", Size: lambda.MaxPayload - 2}) // and two quotes
	out, err := f.Invoke(t.Context(), payload)
	if err != nil || len(out) != lambda.MaxPayload {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	var tooBig *lambda.PayloadError
	if _, err := f.Invoke(t.Context(), make([]byte, lambda.MaxPayload+1)); !errors.As(err, &tooBig) {
		t.Errorf("a payload over the limit: %v", err)
	}
}

// A timeout kills the environment, and the next call gets a new one.
func TestFunctionTimesOut(t *testing.T) {
	f := start(t, lambda.Config{Timeout: 300 * time.Millisecond})
	var e *lambda.TimeoutError
	if _, err := invoke(f, event{Do: "hang"}); !errors.As(err, &e) || e.After != 300*time.Millisecond {
		t.Fatalf("got %v", err)
	}
	waiting.Until(t, "a new environment answers", func() bool {
		_, err := invoke(f, event{})
		return err == nil
	})
}

// The end of the caller's context does not end the invocation.
func TestInvocationRunsAfterItsCallerGivesUp(t *testing.T) {
	f := start(t, lambda.Config{})
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		payload, _ := json.Marshal(event{Do: "meet", Address: listener.Addr().String()})
		_, err := f.Invoke(ctx, payload)
		left <- err
	}()
	conns := accept(t, listener, 1)
	cancel()
	if err := waiting.For(t, "the end of the call", left); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := invoke(f, event{}); !errors.Is(err, lambda.ErrThrottled) {
		t.Errorf("the invocation still runs: got %v, want ErrThrottled", err)
	}
	closeAll(conns)
	waiting.Until(t, "the invocation has ended", func() bool {
		_, err := invoke(f, event{})
		return err == nil
	})
}

func TestFunctionReplacesAnEnvironmentThatDiedWhileIdle(t *testing.T) {
	f := start(t, lambda.Config{})
	pid := mustInvoke(t, f, event{}).PID
	waiting.Until(t, "the environment is idle", f.Idle)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waiting.Until(t, "the function knows that the process has ended", f.IdleDead)
	if next := mustInvoke(t, f, event{}).PID; next == pid {
		t.Error("the killed process answered")
	}
}

// Only an idle environment is ended, and the next invocation gets a new one.
func TestFunctionEndsIdleEnvironments(t *testing.T) {
	f := start(t, lambda.Config{Idle: time.Millisecond})
	for range 3 {
		pid := mustInvoke(t, f, event{}).PID
		waiting.Until(t, "the idle process is gone", func() bool { return gone(pid) })
	}
	long := start(t, lambda.Config{Idle: time.Hour})
	first := mustInvoke(t, long, event{}).PID
	if second := mustInvoke(t, long, event{}).PID; second != first {
		t.Error("an environment was ended before its idle time")
	}
}

func TestFunctionThatCannotStart(t *testing.T) {
	for _, c := range []struct {
		init  string
		cause any
	}{
		{"exit", new(*lambda.CrashError)},
		{"hang", new(*lambda.TimeoutError)},
	} {
		t.Run(c.init, func(t *testing.T) {
			config := lambda.Config{Name: "check", Binary: binary(t), Env: map[string]string{"INIT": c.init},
				InitTimeout: 2 * time.Second, Concurrency: 2}
			f, err := lambda.Start(config)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = invoke(f, event{})
			var init *lambda.InitError
			if !errors.As(err, &init) || !errors.As(err, c.cause) {
				t.Errorf("Invoke: %v", err)
			}
			config.Warm = 2
			if f, err := lambda.Start(config); !errors.As(err, &init) {
				t.Errorf("Start with warm environments: %v, %v", f, err)
			}
		})
	}
}

func TestStartRefusesBadConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*lambda.Config)
		want   string
	}{
		{"no name", func(c *lambda.Config) { c.Name = "" }, "name"},
		{"no binary", func(c *lambda.Config) { c.Binary += "-missing" }, "no such file"},
		{"a folder", func(c *lambda.Config) { c.Binary = filepath.Dir(c.Binary) }, "not an executable file"},
		{"warm over concurrency", func(c *lambda.Config) { c.Warm = 2 }, "warm is 2"},
		{"reserved variable", func(c *lambda.Config) {
			c.Env = map[string]string{"AWS_LAMBDA_X": ""}
		}, "AWS_LAMBDA_X"},
		{"negative timeout", func(c *lambda.Config) { c.Timeout = -1 }, "negative"},
		{"negative idle time", func(c *lambda.Config) { c.Idle = -1 }, "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := lambda.Config{Name: "check", Binary: binary(t)}
			c.change(&config)
			if _, err := lambda.Start(config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// An invocation that times out, crashes or loses its caller frees its environment.
func TestFailedInvocationsAreNotCounted(t *testing.T) {
	f := start(t, lambda.Config{Timeout: 300 * time.Millisecond})
	for _, do := range []string{"hang", "exit", "fail", "hang"} {
		if _, err := invoke(f, event{Do: do}); err == nil || errors.Is(err, lambda.ErrThrottled) {
			t.Errorf("%s: got %v, want its own error", do, err)
		}
	}
	if _, err := invoke(f, event{}); errors.Is(err, lambda.ErrThrottled) {
		t.Errorf("got %v, want a call", err)
	}
	slow := start(t, lambda.Config{Env: map[string]string{"INIT": "hang"}, InitTimeout: waiting.Timeout})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := slow.Invoke(ctx, []byte("{}")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	}
}

// Close ends running and waiting invocations with ErrClosed, and leaves no process.
func TestFunctionClose(t *testing.T) {
	slow := start(t, lambda.Config{Env: map[string]string{"INIT": "hang"}, InitTimeout: waiting.Timeout})
	waits := make(chan error, 1)
	go func() {
		_, err := invoke(slow, event{})
		waits <- err
	}()
	waiting.Until(t, "the invocation waits", slow.Waiting)
	slow.Close()
	if err := waiting.For(t, "the end of the call", waits); !errors.Is(err, lambda.ErrClosed) {
		t.Errorf("a waiting invocation: got %v", err)
	}
	f := start(t, lambda.Config{Concurrency: 2})
	listener := listen(t)
	idle := mustInvoke(t, f, event{}).PID
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := invoke(f, event{Do: "meet", Address: listener.Addr().String()})
			errs <- err
		}()
	}
	conns := accept(t, listener, 2)
	f.Close()
	for range cap(errs) {
		if err := waiting.For(t, "the end of a call", errs); !errors.Is(err, lambda.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if !gone(idle) {
		t.Error("a process still runs after Close")
	}
	closeAll(conns)
	f.Close()
	if _, err := f.Invoke(t.Context(), nil); !errors.Is(err, lambda.ErrClosed) {
		t.Errorf("Invoke after Close: %v", err)
	}
}

// The log has every line of the function whole and with its prefix, also a last line
// without a newline.
func TestFunctionLog(t *testing.T) {
	var log waiting.Buffer
	f := start(t, lambda.Config{Log: &log})
	mustInvoke(t, f, event{Do: "log"})
	f.Close()
	for _, want := range []string{"[check] line on stdout\n", "[check] line on stderr\n",
		"[check] no end\n"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q: %q", want, log.String())
		}
	}
}

// With NoFreeze a process keeps running after its answer.
func TestFunctionWithoutFreezing(t *testing.T) {
	f := start(t, lambda.Config{NoFreeze: true})
	listener := listen(t)
	mustInvoke(t, f, event{Do: "later", Address: listener.Addr().String()})
	closeAll(accept(t, listener, 1))
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func accept(t *testing.T, listener *net.TCPListener, n int) []net.Conn {
	t.Helper()
	_ = listener.SetDeadline(time.Now().Add(waiting.Timeout))
	var conns []net.Conn
	for range n {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}
