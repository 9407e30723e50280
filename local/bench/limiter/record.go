package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// recorder records the bytes that a library sends.
type recorder struct {
	mu        sync.Mutex
	recording bool
	sent      []byte
}

// tap is a connection that copies the bytes that it sends to a recorder. It embeds a TCP
// connection, since some libraries need its methods.
type tap struct {
	*net.TCPConn
	recorder *recorder
}

func (t *tap) Write(b []byte) (int, error) {
	t.recorder.write(b)
	return t.TCPConn.Write(b)
}

func (r *recorder) write(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recording {
		r.sent = append(r.sent, b...)
	}
}

func (r *recorder) enable(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recording = on
	if on {
		r.sent = nil
	}
}

func (r *recorder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("%s is not a TCP address", address)
	}
	return &tap{TCPConn: tcp, recorder: r}, nil
}

// The purposes of subjects: a letter in their names.
const (
	allowedSubjects = 'a' // of raw checks that are allowed
	deniedSubjects  = 'd' // of raw checks that are denied
	librarySubjects = 'l' // of calls through the library that are allowed
	libraryDenied   = 'm' // of calls through the library that are denied
	freshSubjects   = 'f' // used once
)

// subjectLen is the length of a subject's name. It is about that of a customer's id. It
// is also that of 128 bits in base64, to which a library may hash the name.
const subjectLen = 22

func subject(purpose byte, i int) string { return fmt.Sprintf("customer-00000%c%07d", purpose, i) }

var errNoKey = errors.New("the library's commands do not have the subject")

// template is the bytes that a library sent for one subject. Commands for other subjects
// are made from it.
type template struct {
	bytes    []byte
	places   []int    // offsets of the subject
	commands []string // names, in lower case
}

// record returns the bytes that a library sends in a call for the subject. If the library
// hashes the subject, the hash must be in braces: its place is that of the subject.
func (r *recorder) record(subject string, keyless bool, call func() error) (template, error) {
	r.enable(true)
	err := call()
	r.enable(false)
	if err != nil {
		return template{}, err
	}
	t := template{bytes: r.sent}
	if t.commands, err = commandNames(t.bytes); err != nil || keyless {
		return t, err
	}
	for at := 0; ; at += subjectLen {
		next := bytes.Index(t.bytes[at:], []byte(subject))
		if next < 0 {
			break
		}
		at += next
		t.places = append(t.places, at)
	}
	if len(t.places) == 0 {
		end := bytes.Index(t.bytes, []byte("}\r\n"))
		begin := end - subjectLen
		if begin < 1 || t.bytes[begin-1] != '{' {
			return template{}, fmt.Errorf("%w: %.200q", errNoKey, t.bytes)
		}
		t.places = []int{begin}
	}
	return t, nil
}

// load has encoded checks, all with the same number of replies.
type load struct {
	bytes   []byte
	ends    []int // offset of the end of each check
	replies int   // of one check
}

func (l *load) add(t template, subject string) {
	at := len(l.bytes)
	l.bytes = append(l.bytes, t.bytes...)
	for _, place := range t.places {
		copy(l.bytes[at+place:], subject)
	}
	l.ends = append(l.ends, len(l.bytes))
	l.replies = len(t.commands)
}

// checks returns the bytes of the checks from first up to last, exclusive.
func (l *load) checks(first, last int) []byte {
	from := 0
	if first > 0 {
		from = l.ends[first-1]
	}
	return l.bytes[from:l.ends[last-1]]
}

// reset empties the load and keeps its memory.
func (l *load) reset() { l.bytes, l.ends = l.bytes[:0], l.ends[:0] }
