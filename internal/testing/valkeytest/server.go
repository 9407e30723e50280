// Package valkeytest starts Valkey for tests: a real server (Start), a real cluster
// (StartCluster), one cluster for all tests of a package (SharedCluster) or miniredis
// (Embedded). Only tests import it.
//
// Servers listen on free ports of 127.0.0.1, without persistence. They stop when the test
// or the package's tests end, or the test process is killed. A server starts within some
// 20 ms and a cluster within some 3 s.
//
// The server is valkey-server on PATH, or the program that the environment variable
// VALKEY_SERVER names. Without one a test is skipped, or fails with CI=true.
package valkeytest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// startTimeout is long, since a busy machine may be slow to start a process.
const startTimeout = 20 * time.Second

// startAttempts bounds the retries when another process takes the free port before the
// server binds it.
const startAttempts = 10

// Start starts a server and returns its URL, valkey://127.0.0.1:PORT.
func Start(t testing.TB) string {
	t.Helper()
	return StartWith(t)
}

// StartWith starts a server with further arguments, such as "--maxmemory", "1mb".
func StartWith(t testing.TB, settings ...string) string {
	t.Helper()
	return start(t, findServer(t), settings).url()
}

// server is a running valkey-server.
type server struct {
	*process
	port int
}

func (s server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s server) url() string { return "valkey://" + s.address() }

// start starts a server that ends with the test.
func start(t testing.TB, binary string, settings []string) server {
	t.Helper()
	s, err := launch(binary, t.TempDir(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		s.logAfterFailure(t)
	})
	return s
}

// logAfterFailure logs what the server wrote, if the test failed.
func (s server) logAfterFailure(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("valkey-server on port %d wrote:\n%s", s.port, s.output)
	}
}

// launch starts a server with its files in a folder.
func launch(binary, folder string, settings []string) (s server, err error) {
	for range startAttempts {
		if s, err = tryLaunch(binary, folder, settings); err == nil {
			return s, nil
		}
	}
	return server{}, fmt.Errorf("start %s: %w", binary, err)
}

// tryLaunch returns an error if another process has taken the free port meanwhile.
func tryLaunch(binary, folder string, settings []string) (server, error) {
	port, err := freePort()
	if err != nil {
		return server{}, err
	}
	arguments := append([]string{
		"--port", strconv.Itoa(port),
		"--bind", "127.0.0.1",
		"--dir", folder,
		"--save", "",
		"--appendonly", "no",
		"--enable-debug-command", "yes",
	}, settings...)
	p, err := run(exec.Command(binary, arguments...), "Ready to accept connections", startTimeout)
	return server{process: p, port: port}, err
}

// maxPort leaves room for the bus of a cluster node, whose port is higher by 10,000.
const maxPort = 65535 - 10000

// freePort returns a free port, since the server cannot choose one.
func freePort() (int, error) {
	for {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		if port <= maxPort {
			return port, nil
		}
	}
}

// findServer returns the server's path. Without a server it skips the test, or fails it
// in CI.
func findServer(t testing.TB) string {
	t.Helper()
	name := os.Getenv("VALKEY_SERVER")
	if name == "" {
		name = "valkey-server"
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	const remedy = "scripts/install-test-tools installs it, or says how (macOS: brew install valkey)"
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf("this test needs valkey-server 8: %v; %s", err, remedy)
	}
	t.Skipf("this test needs valkey-server 8: %v; %s", err, remedy)
	return ""
}

// Embedded starts miniredis, the default store of the local gateway, and returns its URL.
// Keys expire by the wall clock, as on a server.
func Embedded(t testing.TB) string {
	t.Helper()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return "valkey://" + m.Addr()
}

// process is a child process that is ready once its output contains certain words.
type process struct {
	command *exec.Cmd
	output  *log
	exited  chan struct{}
}

// run starts the command and returns once its output contains ready. It returns an error
// if the command ends first, or is not ready within the timeout.
func run(command *exec.Cmd, ready string, timeout time.Duration) (*process, error) {
	p := &process{command: command, output: &log{words: []byte(ready), seen: make(chan struct{})},
		exited: make(chan struct{})}
	command.Stdout, command.Stderr = p.output, p.output
	command.SysProcAttr = dieWithParent()
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.output.seen:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("the process ended (%v) before it was ready and wrote:\n%s",
			command.ProcessState, p.output)
	case <-timer.C:
		p.stop()
		return nil, fmt.Errorf("the process was not ready within %v and wrote:\n%s", timeout, p.output)
	}
}

// start keeps the forking thread alive as long as the child, since on Linux the child
// dies with that thread.
func (p *process) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.command.Wait() // ProcessState has the result
		close(p.exited)
	}()
	return <-started
}

// stop kills the process and returns when it has ended.
func (p *process) stop() {
	_ = p.command.Process.Kill() // it may have ended before
	<-p.exited
}

// log keeps the output of a process, and closes seen once it contains words.
type log struct {
	words []byte
	seen  chan struct{}

	mu    sync.Mutex
	text  []byte
	found bool
}

// maxLog is how many bytes from the start of the output are kept.
const maxLog = 256 << 10

// Write never fails, since an error would close the process's output.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxLog - len(l.text); room > 0 {
		l.text = append(l.text, p[:min(len(p), room)]...)
	}
	if !l.found && bytes.Contains(l.text, l.words) {
		l.found = true
		close(l.seen)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
