package valkeytest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// Monitor lists the commands that a server executes, as its MONITOR command reports them.
type Monitor struct {
	t       testing.TB
	conn    net.Conn // on which the server reports commands
	stream  *bufio.Reader
	marker  net.Conn // on which Commands sends markers
	markers int
}

// StartMonitor starts a Monitor of the server at url, which has no password.
func StartMonitor(t testing.TB, url string) *Monitor {
	t.Helper()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "valkey://"))
		if err != nil {
			t.Fatalf("monitor: %v", err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	m := &Monitor{t: t, conn: conn, stream: bufio.NewReader(conn), marker: dial()}
	m.send(conn, "MONITOR\r\n")
	if line := m.line(); line != "+OK" {
		t.Fatalf("monitor: the server answered %q", line)
	}
	return m
}

// Commands returns the commands executed since the last call of Commands, oldest first,
// one line each, including those of scripts.
func (m *Monitor) Commands() (commands []string) {
	m.t.Helper()
	m.markers++
	marker := fmt.Sprintf("end-of-commands-%d", m.markers)
	m.send(m.marker, "ECHO "+marker+"\r\n")
	for {
		line := m.line()
		if strings.Contains(line, marker) {
			return commands
		}
		commands = append(commands, line)
	}
}

func (m *Monitor) send(conn net.Conn, command string) {
	m.t.Helper()
	if _, err := conn.Write([]byte(command)); err != nil {
		m.t.Fatalf("monitor: %v", err)
	}
}

func (m *Monitor) line() string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(waiting.Timeout)); err != nil {
		m.t.Fatalf("monitor: %v", err)
	}
	line, err := m.stream.ReadString('\n')
	if err != nil {
		m.t.Fatalf("monitor: %v", err)
	}
	return strings.TrimRight(line, "\r\n")
}
