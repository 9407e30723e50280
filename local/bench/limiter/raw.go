package limiter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
)

// recorder sees the bytes that a library sends. It keeps them, or makes the library call
// for another caller.
type recorder struct {
	mu        sync.Mutex
	recording bool
	sent      []byte
	from, to  string // replaced in what is sent, if not empty; of one length
}

// tap is a connection that a recorder sees. It embeds a TCP connection, since some
// libraries need its methods.
type tap struct {
	*net.TCPConn
	recorder *recorder
}

func (t *tap) Write(b []byte) (int, error) { return t.TCPConn.Write(t.recorder.see(b)) }

func (r *recorder) see(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recording {
		r.sent = append(r.sent, b...)
	}
	if r.from == "" {
		return b
	}
	return bytes.ReplaceAll(b, []byte(r.from), []byte(r.to))
}

func (r *recorder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tap{conn.(*net.TCPConn), r}, nil
}

func (r *recorder) set(recording bool, from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recording, r.from, r.to = recording, from, to
	if recording {
		r.sent = nil
	}
}

// nameLen is the length of a caller's name: about that of a customer's id, and that of
// 128 bits in base64, to which our limiter hashes the name.
const nameLen = 22

func nameOf(kind byte, i int) string { return fmt.Sprintf("customer-00000%c%07d", kind, i) }

// template is what a library sent for one caller, from which calls of others are made.
type template struct {
	bytes    []byte
	place    string // the caller's name, or its hash, in the bytes; "" without one
	commands int
}

// hashTag matches the part of a key that decides its slot, which is a hash of nameLen
// characters.
var hashTag = regexp.MustCompile(`\{([A-Za-z0-9_-]{22})\}`)

// record returns what a library sends in a call of a caller.
func (r *recorder) record(caller string, call func() error) (template, error) {
	r.set(true, "", "")
	err := call()
	r.set(false, "", "")
	if err != nil {
		return template{}, err
	}
	t := template{bytes: r.sent}
	if bytes.Contains(t.bytes, []byte(caller)) {
		t.place = caller
	} else if tag := hashTag.FindSubmatch(t.bytes); tag != nil {
		t.place = string(tag[1])
	}
	for in := bufio.NewReader(bytes.NewReader(t.bytes)); ; t.commands++ {
		if err := skip(in); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return t, err
		}
	}
}

// forCaller returns the bytes of a call of another caller.
func (t template) forCaller(name string) []byte {
	if t.place == "" {
		return t.bytes
	}
	return bytes.ReplaceAll(t.bytes, []byte(t.place), []byte(name))
}

// The checks of a saturated server: in flight on each of some connections.
const (
	connections = 4
	depth       = 64
)

// pipes are connections that send encoded checks and parse little of the replies, so that
// the server is the bottleneck.
type pipes []*bufio.ReadWriter

func openPipes(s *site) (pipes, error) {
	var p pipes
	for range connections {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() { _ = conn.Close() })
		p = append(p, &bufio.ReadWriter{Reader: bufio.NewReaderSize(conn, 64<<10),
			Writer: bufio.NewWriterSize(conn, 1<<20)})
	}
	return p, nil
}

// choose selects the database of the next checks.
func (p pipes) choose(database int) error {
	digits := strconv.Itoa(database)
	command := fmt.Appendf(nil, "*2\r\n$6\r\nSELECT\r\n$%d\r\n%s\r\n", len(digits), digits)
	for _, c := range p {
		if err := exchange(c, [][]byte{command}, 1); err != nil {
			return err
		}
	}
	return nil
}

// send sends the checks, divided among the connections, each of which has so many replies.
func (p pipes) send(checks [][]byte, replies int) error {
	errs := make([]error, len(p))
	var all sync.WaitGroup
	for i, c := range p {
		all.Go(func() {
			errs[i] = exchange(c, checks[len(checks)*i/len(p):len(checks)*(i+1)/len(p)], replies)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func exchange(c *bufio.ReadWriter, checks [][]byte, replies int) error {
	for len(checks) > 0 {
		batch := checks[:min(depth, len(checks))]
		checks = checks[len(batch):]
		for _, check := range batch {
			_, _ = c.Write(check) // Flush returns the error
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range len(batch) * replies {
			if err := skip(c.Reader); err != nil {
				return err
			}
		}
	}
	return nil
}

// skip reads one value of RESP 2. It returns io.EOF at the end.
func skip(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	kind, text := line[0], bytes.TrimSpace(line[1:])
	if kind == '+' || kind == ':' {
		return nil
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case kind == '-' || err != nil:
		return fmt.Errorf("the server answered %q", line)
	case kind == '$' && n >= 0:
		_, err := in.Discard(n + len("\r\n"))
		return err
	case kind == '*':
		for range n {
			if err := skip(in); err != nil {
				return err
			}
		}
	}
	return nil
}
