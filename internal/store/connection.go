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

// idleAfter is how long a connection is trusted without use: Valkey or the network may
// have closed it in a freeze, so silence on it says nothing about Valkey.
const idleAfter = time.Second

// connection is logged in before the library gets it. The library's own log-in, its first
// write, is not sent again: the reply that came is what the library reads first.
type connection struct {
	net.Conn
	hello         []byte // the log-in; nil after the library wrote its own
	reply         []byte // what has come of the reply and is to be read
	heard         time.Time
	answerTimeout time.Duration
	silent        func() // reports that Valkey stopped answering on a connection in use
}

// hello is the library's log-in with its options: see the constructor of its pipes.
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

// maxHelloReply holds the reply to a log-in, or its begin.
const maxHelloReply = 4 << 10

// logIn sends the log-in and waits until its reply begins to come. It closes the
// connection when that fails.
func (c *connection) logIn(ctx context.Context) error {
	// Fails only when it is closed.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := c.exchange()
	if !stop() {
		err = fmt.Errorf("log in: %w", ctx.Err())
	}
	if err != nil {
		_ = c.Close() // It is of no use.
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
	c.heard = time.Now()
	return nil
}

var errHello = errors.New("the client library logs in otherwise than this connection did")

// Write sends what follows the log-in.
func (c *connection) Write(p []byte) (int, error) {
	if c.hello == nil {
		return c.Conn.Write(p)
	}
	// The library signs an IAM token of its own, so only what stands before it is the
	// same.
	if command := len("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"); len(p) < command ||
		!bytes.Equal(p[:command], c.hello[:command]) {
		return 0, errHello
	}
	c.hello = nil
	return len(p), nil
}

// Read returns what came before the library asked, and then what comes.
func (c *connection) Read(p []byte) (int, error) {
	if len(c.reply) > 0 {
		n := copy(p, c.reply)
		c.reply = c.reply[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	switch now := time.Now(); {
	case n > 0:
		c.heard = now
	case errors.Is(err, os.ErrDeadlineExceeded) && ElapsedAtMost(c.heard, now) < c.answerTimeout:
		c.silent()
	}
	return n, err
}
