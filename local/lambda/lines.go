package lambda

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is the maximum length of a log line; a longer one is split.
const maxLine = 64 << 10

// lines copies whole lines to out with a prefix. Several may share out if they share its
// lock.
type lines struct {
	lock   *sync.Mutex
	out    io.Writer
	prefix string
	rest   []byte
}

// Write never fails: a function must not notice errors of its log.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 || i > maxLine {
			l.emit(l.rest[:maxLine])
			l.rest = l.rest[maxLine:]
			continue
		}
		l.emit(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

// flush writes the unfinished last line. Nothing may be written after it.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.emit(l.rest)
		l.rest = nil
	}
}

func (l *lines) emit(line []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	_, _ = l.out.Write(append(append([]byte(l.prefix), bytes.TrimRight(line, "\r")...), '\n'))
}
