package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/valkey-io/valkey-go"
)

// idleAfter is how long an unused connection is trusted. Valkey or the network may close
// it while the function is frozen, so a missing answer on it says nothing about Valkey.
const idleAfter = time.Second

// connection is a connection that logs in before the library gets it. The library writes
// its own log-in first; Write drops that, and Read returns the stored reply.
type connection struct {
	net.Conn
	hello         []byte // the log-in request; nil after the library wrote its own
	reply         []byte // the part of its reply that is not read yet
	lastRead      time.Time
	answerTimeout time.Duration
	silent        func() // reports that Valkey stopped answering on a connection in use
}

// hello returns the library's log-in request with its options, as the constructor of its
// pipes writes it.
func (d *dialer) hello(conn net.Conn) ([]byte, error) {
	user, password := d.option.Username, d.option.Password
	if d.option.AuthCredentialsFn != nil {
		credentials, err := d.option.AuthCredentialsFn(valkey.AuthCredentialsContext{
			Address: conn.RemoteAddr()})
		if err != nil {
			return nil, err
		}
		user, password = credentials.Username, credentials.Password
	}
	words := []string{"HELLO", "3"}
	switch {
	case user != "":
		words = append(words, "AUTH", user, password)
	case password != "":
		words = append(words, "AUTH", "default", password)
	}
	request := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	return request, nil
}

// maxHelloReply is enough for the beginning of the reply to a log-in.
const maxHelloReply = 4 << 10

// logIn sends the log-in request and waits until its reply begins. It closes the
// connection after an error.
func (c *connection) logIn(ctx context.Context) error {
	// SetDeadline fails only on a closed connection.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := c.exchange()
	if !stop() {
		err = fmt.Errorf("log in: %w", ctx.Err())
	}
	if err != nil {
		_ = c.Close() // cannot be used
	}
	return err
}

func (c *connection) exchange() error {
	if _, err := c.Conn.Write(c.hello); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	buffer := make([]byte, maxHelloReply)
	n, err := c.Conn.Read(buffer)
	if n == 0 {
		return fmt.Errorf("log in: %w", err)
	}
	c.reply = buffer[:n]
	c.lastRead = time.Now()
	return nil
}

var (
	errHello   = errors.New("the client library's log-in differs from this connection's")
	errNoHello = errors.New("the client library did not log in")
)

// Write sends everything except the library's log-in.
func (c *connection) Write(p []byte) (int, error) {
	if c.hello == nil {
		return c.Conn.Write(p)
	}
	// The library signs its own IAM token, so only the part before the token is the same.
	if command := len("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"); len(p) < command ||
		!bytes.Equal(p[:command], c.hello[:command]) {
		return 0, errHello
	}
	c.hello = nil
	return len(p), nil
}

// Read returns the stored reply first, and then what Valkey sends. It fails before the
// library wrote its log-in: when the call has ended by then, the library closes the
// connection with a last command, and panics over a reply to anything else.
func (c *connection) Read(p []byte) (int, error) {
	if c.hello != nil {
		return 0, errNoHello
	}
	if len(c.reply) > 0 {
		n := copy(p, c.reply)
		c.reply = c.reply[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	switch now := time.Now(); {
	case n > 0:
		c.lastRead = now
	case errors.Is(err, os.ErrDeadlineExceeded) && ElapsedAtMost(c.lastRead, now) < c.answerTimeout:
		c.silent()
	}
	return n, err
}
