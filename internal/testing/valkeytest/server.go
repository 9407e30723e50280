package valkeytest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// startTimeout is generous because a machine that runs many tests at once may be slow to
// start a process.
const startTimeout = 20 * time.Second

// startAttempts bounds the retries when another process takes the free port before the
// server binds it.
const startAttempts = 10

// Start starts a server and returns its URL, valkey://127.0.0.1:PORT.
func Start(t testing.TB) string {
	t.Helper()
	return StartWith(t)
}

// StartWith starts a server with more of its command line's settings, such as
// "--maxmemory", "1mb".
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

// tryLaunch fails when the port that was free a moment ago no longer is.
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

// maxPort leaves room for the bus of a cluster node, whose port is 10,000 higher.
const maxPort = 65535 - 10000

// freePort asks the system for a port, since the server cannot.
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

// findServer skips the test when there is no server, or fails it in CI.
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
