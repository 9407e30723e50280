package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// function answers with its payload and counts its invocations.
type function struct {
	begun, running, most atomic.Int64
	hold                 chan struct{} // unless nil, invocations end only when it is closed
	err                  error
}

func (f *function) Invoke(_ context.Context, payload []byte) ([]byte, error) {
	f.begun.Add(1)
	if now := f.running.Add(1); now > f.most.Load() {
		f.most.Store(now)
	}
	defer f.running.Add(-1)
	if f.hold != nil {
		<-f.hold
	}
	return payload, f.err
}

// container serves one environment at an address that stays the same after a restart.
type container struct {
	t       *testing.T
	address string
	invoker Invoker
	server  *http.Server
	*Server
}

func newContainer(t *testing.T, invoker Invoker) *container {
	t.Helper()
	c := &container{t: t, address: "127.0.0.1:0", invoker: invoker}
	c.start()
	t.Cleanup(func() { _ = c.server.Close() })
	return c
}

func (c *container) start() {
	c.t.Helper()
	var listener net.Listener
	waiting.Until(c.t, "the address is free", func() bool {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", c.address)
		return err == nil
	})
	c.address = listener.Addr().String()
	c.Server = NewServer(c.invoker)
	c.server = &http.Server{Handler: c.Server, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(c.server)
}

// stop lets running invocations finish.
func (c *container) stop() {
	c.t.Helper()
	c.Drain()
	if err := c.server.Shutdown(context.Background()); err != nil {
		c.t.Error(err)
	}
}

func newPool(t *testing.T, addresses ...string) *Pool {
	t.Helper()
	p := NewPool(addresses...)
	t.Cleanup(p.Close)
	return p
}

func TestInvoke(t *testing.T) {
	f := &function{}
	p := newPool(t, newContainer(t, f).address)
	answer, err := p.Invoke(t.Context(), []byte(`{"a":1}`))
	if err != nil || string(answer) != `{"a":1}` {
		t.Errorf("got %s, %v, want the payload", answer, err)
	}
	f.err = &lambda.FunctionError{Type: "errorString", Message: "Unauthorized"}
	var reported *lambda.FunctionError
	if _, err := p.Invoke(t.Context(), []byte(`1`)); !errors.As(err, &reported) ||
		reported.Type != "errorString" || reported.Message != "Unauthorized" {
		t.Errorf("got %v, want the function's error", err)
	}
	f.err = errors.New("function timed out")
	if _, err := p.Invoke(t.Context(), []byte(`1`)); err == nil ||
		!strings.Contains(err.Error(), "timed out") {
		t.Errorf("got %v, want a timeout", err)
	}
	if p.Ready() != 1 {
		t.Errorf("%d environments are ready, want 1", p.Ready())
	}
}

func TestOneAtATime(t *testing.T) {
	f := &function{}
	p := newPool(t, newContainer(t, f).address)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := p.Invoke(t.Context(), []byte(`1`)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if f.begun.Load() != 20 || f.most.Load() != 1 {
		t.Errorf("%d invocations, %d at once, want 20 and 1", f.begun.Load(), f.most.Load())
	}
}

// Invocations rotate through the environments, so that an environment that has lost
// Valkey is among those called.
func TestEnvironmentsTakeTurns(t *testing.T) {
	functions := []*function{{}, {}, {}}
	var addresses []string
	for _, f := range functions {
		addresses = append(addresses, newContainer(t, f).address)
	}
	p := newPool(t, addresses...)
	waiting.Until(t, "all are ready", func() bool { return p.Ready() == len(functions) })
	for range 12 {
		if _, err := p.Invoke(t.Context(), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range functions {
		if f.begun.Load() != 4 {
			t.Errorf("environment %d ran %d of 12 invocations, want 4", i, f.begun.Load())
		}
	}
}

func TestNoEnvironment(t *testing.T) {
	c := newContainer(t, &function{})
	c.stop()
	p := newPool(t, c.address)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Invoke(ctx, []byte(`1`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an environment: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := p.Invoke(t.Context(), []byte(`1`))
		done <- err
	}()
	c.start()
	if err := waiting.For(t, "the end of the call", done); err != nil {
		t.Errorf("with an environment that started later: %v", err)
	}
}

// The end of a caller's context does not end its invocation.
func TestCallerGivesUp(t *testing.T) {
	f := &function{hold: make(chan struct{})}
	p := newPool(t, newContainer(t, f).address)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Invoke(ctx, []byte(`1`))
		done <- err
	}()
	waiting.Until(t, "the invocation has begun", func() bool { return f.running.Load() == 1 })
	cancel()
	if err := waiting.For(t, "the end of the call", done); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if f.running.Load() != 1 {
		t.Error("the invocation ended with its caller")
	}
	close(f.hold)
	waiting.Until(t, "the invocation has ended", func() bool { return f.running.Load() == 0 })
}

// An invocation whose environment ends is an error. The pool does not repeat it in
// another environment, since it may have taken from a limit.
func TestBegunIsNotRepeated(t *testing.T) {
	var invocations atomic.Int64
	dying := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			return
		}
		invocations.Add(1)
		_, _ = r.Body.Read(make([]byte, 1))
		panic(http.ErrAbortHandler)
	})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: dying, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	p := newPool(t, listener.Addr().String())
	if _, err := p.Invoke(t.Context(), []byte(`1`)); err == nil || invocations.Load() != 1 {
		t.Errorf("got %v and %d invocations, want an error and 1", err, invocations.Load())
	}
}

// While environments restart in turn, every invocation is answered and runs once.
func TestRollingRestart(t *testing.T) {
	f := &function{}
	containers := []*container{newContainer(t, f), newContainer(t, f), newContainer(t, f)}
	p := newPool(t, containers[0].address, containers[1].address, containers[2].address)
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var made atomic.Int64
	for caller := range 4 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				payload := fmt.Sprintf(`"%d-%d"`, caller, i)
				answer, err := p.Invoke(t.Context(), []byte(payload))
				made.Add(1)
				if err != nil || string(answer) != payload {
					t.Errorf("%s: %s, %v", payload, answer, err)
					return
				}
			}
		})
	}
	for range 5 {
		for _, c := range containers {
			before := made.Load()
			waiting.Until(t, "calls are made", func() bool { return made.Load() > before+20 || t.Failed() })
			c.stop()
			c.start()
		}
	}
	stop()
	callers.Wait()
	if f.begun.Load() != made.Load() {
		t.Errorf("%d invocations started for %d calls", f.begun.Load(), made.Load())
	}
}

// A server answers GET only at its health path. A draining server is not healthy.
func TestPathsOfAServer(t *testing.T) {
	c := newContainer(t, &function{})
	for path, healthy := range map[string]bool{healthPath: true, "/other": false, invocationPath: false} {
		if err := Healthy(t.Context(), http.DefaultClient,
			"http://"+c.address+path); (err == nil) != healthy {
			t.Errorf("GET %s: %v", path, err)
		}
	}
	c.Drain()
	if Healthy(t.Context(), http.DefaultClient, "http://"+c.address+healthPath) == nil {
		t.Error("a draining server reports that it is healthy")
	}
}
