package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	connections = 4
	depth       = 64 // checks in flight on each connection
)

// pipes are connections that send encoded commands and parse few of the replies, so that
// the server is the bottleneck.
type pipes struct {
	connections []*pipe
	database    int
}

type pipe struct {
	net.Conn
	buffer     []byte
	start, end int // of what was received and is not read yet
}

// outcome counts the verdicts of the checks that were looked at, one in `depth`.
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
		_ = c.Close() // Nothing is in flight.
	}
}

// choose makes the next checks work on a database.
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

// reply returns the next reply, valid until the one after it.
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
