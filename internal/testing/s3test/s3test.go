// Package s3test starts S3 servers for tests: versitygw on a temporary folder, and one in
// this process with rules of AWS that versitygw lacks. Only tests import it.
package s3test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/waiting"
)

// Bucket is the name of the server's only bucket.
const Bucket = "journal"

// Server is an S3 server. After Stop, Start starts it again with the objects it has
// stored.
type Server struct {
	binary, dir, address string
	command              *exec.Cmd
	exited               chan struct{}
	output               bytes.Buffer
}

// Start starts a server and sets the credentials of its only user in the environment. If
// versitygw is not built it skips the test, or fails it in CI. A test that calls it
// belongs to tier 2.
func Start(t testing.TB) *Server {
	t.Helper()
	tier.Two(t, "starts an S3 server")
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "tester-secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{binary: find(t), dir: t.TempDir(), address: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(s.dir, "data", Bucket), filepath.Join(s.dir, "metadata")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Start(t)
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("versitygw wrote:\n%s", &s.output)
		}
	})
	return s
}

// Address returns the address of the bucket for journal.OpenStore.
func (s *Server) Address() string {
	return "s3://" + Bucket + "?region=us-east-1&endpoint=http://" + s.address
}

// Start starts the server again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	// Metadata is in separate files, since not every file system has attributes.
	s.command = exec.Command(s.binary, "--port", s.address, "--quiet", //nolint:gosec // find's path
		"posix", "--sidecar", filepath.Join(s.dir, "metadata"), filepath.Join(s.dir, "data"))
	s.command.Stdout, s.command.Stderr = &s.output, &s.output
	s.command.Env = append(os.Environ(), "ROOT_ACCESS_KEY=tester", "ROOT_SECRET_KEY=tester-secret")
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	s.exited = make(chan struct{})
	go func() {
		_ = s.command.Wait() // the output shows the cause
		close(s.exited)
	}()
	client := &http.Client{Timeout: time.Second}
	waiting.Until(t, "versitygw answers at "+s.address, func() bool {
		select {
		case <-s.exited:
			t.Fatalf("versitygw ended and wrote:\n%s", &s.output)
		default:
		}
		response, err := client.Get("http://" + s.address) //nolint:noctx // the client has a timeout
		if err != nil {
			return false
		}
		return response.Body.Close() == nil
	})
}

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.command.Process.Kill() // it may have ended
	<-s.exited
}

func find(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "..", "..", "..", "build", "versitygw")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	const remedy = "scripts/install-test-tools builds it"
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatal("this test needs build/versitygw: " + remedy)
	}
	t.Skip("this test needs build/versitygw: " + remedy)
	return ""
}
