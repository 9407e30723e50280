//go:build linux

package crashes

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// pair is a Valkey that sometimes gets a replica, which then takes its place.
type pair struct {
	t  *testing.T
	mu sync.Mutex

	primary, replica string // URLs
}

func startPair(t *testing.T) *pair {
	t.Helper()
	return &pair{t: t, primary: valkeytest.Start(t)}
}

// target returns the URL of the primary.
func (p *pair) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.primary
}

// replicate starts a replica and waits until it has everything that the primary has.
func (p *pair) replicate() {
	p.t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(p.target(), "valkey://"))
	if err != nil {
		p.t.Fatal(err)
	}
	valkeytest.Ask(p.t, p.target(), "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	p.replica = valkeytest.StartWith(p.t, "--replicaof", host+" "+port)
	waiting.Until(p.t, "the replica follows", func() bool {
		return infoField(p.t, p.replica, "replication", "master_link_status") == "up"
	})
}

// promote makes the replica a primary. Later writes to the old primary are lost.
func (p *pair) promote() {
	p.t.Helper()
	valkeytest.Ask(p.t, p.replica, "REPLICAOF", "NO", "ONE")
}

// takeOver makes target return the promoted replica's URL.
func (p *pair) takeOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.primary = p.replica
}

// processOf returns the process id of a server.
func processOf(t *testing.T, url string) (pid int) {
	t.Helper()
	pid, err := strconv.Atoi(infoField(t, url, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// infoField returns one field of a server's INFO, or "" if it is missing.
func infoField(t *testing.T, url, section, field string) string {
	t.Helper()
	for line := range strings.Lines(valkeytest.Ask(t, url, "INFO", section)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			return text
		}
	}
	return ""
}
