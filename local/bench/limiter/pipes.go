package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	connections = 4
	depth       = 64 // checks in flight on each connection
)

// pipes are connections that send encoded commands. They parse few of the replies, so
// that the server is the bottleneck.
type pipes struct {
	connections []*pipe
	database    int
}

type pipe struct {
	net.Conn
	buffer     []byte
	start, end int // of the unread part of buffer
}

// outcome counts the verdicts of the checks whose replies were parsed: one of `depth`.
type outcome struct {
	elapsed         time.Duration
	allowed, denied int
}

func openPipes(address string) (*pipes, error) {
	p := &pipes{}
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("open a raw connection: %w", err)
		}
		p.connections = append(p.connections, &pipe{Conn: conn, buffer: make([]byte, 64<<10)})
	}
	return p, nil
}

func (p *pipes) close() {
	for _, c := range p.connections {
		_ = c.Close() // no checks are in flight
	}
}

// choose selects the database of the next checks.
func (p *pipes) choose(database int) error {
	if p.database == database {
		return nil
	}
	p.database = database
	digits := strconv.Itoa(database)
	command := fmt.Sprintf("*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", len(digits), digits)
	for _, c := range p.connections {
		if _, err := c.Write([]byte(command)); err != nil {
			return fmt.Errorf("choose database %d: %w", database, err)
		}
		if _, err := c.reply(); err != nil {
			return fmt.Errorf("choose database %d: %w", database, err)
		}
	}
	return nil
}

// send sends every check of the load, divided among the connections.
func (p *pipes) send(l *load, verdict func(leaves []string) bool) (outcome, error) {
	type result struct {
		outcome
		err error
	}
	results := make(chan result, len(p.connections))
	begin := time.Now()
	for i, c := range p.connections {
		go func() {
			n := len(l.ends)
			o, err := c.send(l, n*i/len(p.connections), n*(i+1)/len(p.connections), verdict)
			results <- result{o, err}
		}()
	}
	var total outcome
	var errs []error
	for range p.connections {
		r := <-results
		total.allowed += r.allowed
		total.denied += r.denied
		errs = append(errs, r.err)
	}
	total.elapsed = time.Since(begin)
	return total, errors.Join(errs...)
}

func (c *pipe) send(l *load, first, last int, verdict func(leaves []string) bool) (outcome, error) {
	var o outcome
	for first < last {
		next := min(first+depth, last)
		if _, err := c.Write(l.checks(first, next)); err != nil {
			return o, fmt.Errorf("send checks: %w", err)
		}
		for range (next - first - 1) * l.replies {
			if _, err := c.reply(); err != nil {
				return o, err
			}
		}
		values, err := c.lastCheck(l.replies)
		if err != nil {
			return o, err
		}
		if verdict == nil || verdict(values) {
			o.allowed++
		} else {
			o.denied++
		}
		first = next
	}
	return o, nil
}

// lastCheck reads the replies of one check.
func (c *pipe) lastCheck(replies int) ([]string, error) {
	var values []string
	for range replies {
		reply, err := c.reply()
		if err != nil {
			return nil, err
		}
		values = append(values, leaves(reply)...)
	}
	return values, nil
}

var errReply = errors.New("the server answered with an error")

// reply returns the next reply. It is valid until the next call.
func (c *pipe) reply() ([]byte, error) {
	for {
		size, err := replySize(c.buffer[c.start:c.end])
		if err != nil {
			return nil, err
		}
		if size > 0 {
			reply := c.buffer[c.start : c.start+size]
			c.start += size
			if reply[0] == '-' {
				return nil, fmt.Errorf("%w: %s", errReply, reply[1:size-2])
			}
			return reply, nil
		}
		if err := c.receive(); err != nil {
			return nil, fmt.Errorf("read a reply: %w", err)
		}
	}
}

// receive reads more bytes into the buffer, which grows if it is full.
func (c *pipe) receive() error {
	copy(c.buffer, c.buffer[c.start:c.end])
	c.start, c.end = 0, c.end-c.start
	if c.end == len(c.buffer) {
		c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
	}
	n, err := c.Read(c.buffer[c.end:])
	c.end += n
	return err
}

var errProtocol = errors.New("not RESP")

// replySize returns the length of the reply (RESP 2) that b begins with, 0 if b has only
// a part of it.
func replySize(b []byte) (int, error) {
	size := lineSize(b)
	if size == 0 {
		return 0, nil
	}
	switch b[0] {
	case '+', '-', ':':
		return size, nil
	case '$':
		n := decimal(b[1 : size-2])
		if n >= 0 {
			size += n + 2
		}
		if size > len(b) {
			return 0, nil
		}
		return size, nil
	case '*':
		for range decimal(b[1 : size-2]) {
			item, err := replySize(b[size:])
			if item == 0 || err != nil {
				return 0, err
			}
			size += item
		}
		return size, nil
	}
	return 0, fmt.Errorf("%w: %.20q", errProtocol, b)
}

// lineSize returns the length of b's first line with its end; 0 if b has no whole line.
func lineSize(b []byte) int { return bytes.IndexByte(b, '\n') + 1 }

// decimal parses a valid number.
func decimal(b []byte) int {
	n, sign := 0, 1
	for _, c := range b {
		if c == '-' {
			sign = -1
		} else {
			n = 10*n + int(c-'0')
		}
	}
	return sign * n
}

// leaves returns the values in complete replies, those in arrays included: an integer in
// decimals, a missing value as "".
func leaves(b []byte) []string {
	var values []string
	for len(b) > 0 {
		size := lineSize(b)
		kind, line := b[0], b[1:size-2]
		b = b[size:]
		switch {
		case kind == '*':
		case kind != '$':
			values = append(values, string(line))
		case line[0] == '-':
			values = append(values, "")
		default:
			n := decimal(line)
			values = append(values, string(b[:n]))
			b = b[n+2:]
		}
	}
	return values
}

// number parses a leaf as an integer; 0 if it is not an integer.
func number(leaf string) int64 {
	n, _ := strconv.ParseInt(leaf, 10, 64)
	return n
}

// commandNames returns the names of the commands that a client sent, in lower case.
// Commands are arrays of strings, which replySize can parse too.
func commandNames(sent []byte) ([]string, error) {
	var names []string
	for len(sent) > 0 {
		size, err := replySize(sent)
		if err != nil {
			return nil, err
		}
		words := []string(nil)
		if size > 0 {
			words = leaves(sent[:size])
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("%w: %.20q", errProtocol, sent)
		}
		names = append(names, strings.ToLower(words[0]))
		sent = sent[size:]
	}
	return names, nil
}
