package valkeytest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// dialTo speaks to the proxy without a client library, which would hide what breaks.
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

func TestProxyBreaksWhatItIsTold(t *testing.T) {
	p := StartProxy(t, Start(t), nil)
	old, oldReader := dialTo(t, p)
	if reply, err := exchange(old, oldReader, "PING"); err != nil || reply != "+PONG\r\n" {
		t.Fatalf("before anything: %q, %v", reply, err)
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
