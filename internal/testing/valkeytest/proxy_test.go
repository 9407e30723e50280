package valkeytest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// dialTo connects to the proxy without a client library, since that would hide faults.
func dialTo(t *testing.T, p *Proxy) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, bufio.NewReader(c)
}

func exchange(c net.Conn, r *bufio.Reader, command string) (string, error) {
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		return "", err
	}
	return r.ReadString('\n')
}

// Silence affects open connections, DropReplies one reply. Requests still reach the
// server once the reply is dropped, but not on silent connections.
func TestProxyFaults(t *testing.T) {
	p := StartProxy(t, Start(t), nil)
	old, oldReader := dialTo(t, p)
	if reply, err := exchange(old, oldReader, "PING"); err != nil || reply != "+PONG\r\n" {
		t.Fatalf("without faults: %q, %v", reply, err)
	}

	p.Silence()
	if err := old.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if reply, err := exchange(old, oldReader, "INCR silent"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("silent: %q, %v", reply, err)
	}

	p.DropReplies("INCR", 1)
	dropped, droppedReader := dialTo(t, p)
	if reply, err := exchange(dropped, droppedReader, "PING"); err != nil || reply != "+PONG\r\n" {
		t.Errorf("another command: %q, %v", reply, err)
	}
	if reply, err := exchange(dropped, droppedReader, "INCR dropped"); err == nil {
		t.Errorf("dropped: %q", reply)
	}

	fresh, freshReader := dialTo(t, p)
	for key, want := range map[string]string{"silent": ":1\r\n", "dropped": ":2\r\n"} {
		if reply, err := exchange(fresh, freshReader, "INCR "+key); err != nil || reply != want {
			t.Errorf("%s: %q, %v, want %s", key, reply, err, strings.TrimSpace(want))
		}
	}
}

// EndClient ends a client before its request arrives, or once the reply arrives.
func TestProxyEndsClients(t *testing.T) {
	p := StartProxy(t, Start(t), nil)
	for _, c := range []struct {
		before, after bool
		reply         string
	}{{false, false, ":1\r\n"}, {true, false, ""}, {false, true, ""}, {false, false, ":3\r\n"}} {
		var ended atomic.Bool
		p.EndClient(func() (bool, bool) { return c.before, c.after }, func() { ended.Store(true) })
		client, reader := dialTo(t, p)
		if reply, _ := exchange(client, reader, "INCR key"); reply != c.reply ||
			ended.Load() != (c.before || c.after) {
			t.Errorf("%+v: got %q, ended %t", c, reply, ended.Load())
		}
	}
}

// A proxy delays only the first reply of a connection, and counts its connections.
func TestProxyDelaysFirstReplies(t *testing.T) {
	p := StartProxy(t, Start(t), nil)
	p.DelayFirstReplies(200 * time.Millisecond)
	c, r := dialTo(t, p)
	began := time.Now()
	if reply, err := exchange(c, r, "PING"); err != nil || reply != "+PONG\r\n" ||
		time.Since(began) < 200*time.Millisecond {
		t.Errorf("%q, %v after %s", reply, err, time.Since(began))
	}
	p.DelayFirstReplies(time.Hour) // does not affect a connection that has had its first reply
	if reply, err := exchange(c, r, "PING"); err != nil || reply != "+PONG\r\n" {
		t.Errorf("second reply: %q, %v", reply, err)
	}
	dialTo(t, p)
	waiting.Until(t, "two connections are counted", func() bool { return p.Connections() == 2 })
	p.Cut()
	if reply, err := exchange(c, r, "PING"); err == nil {
		t.Errorf("cut: %q", reply)
	}
}
