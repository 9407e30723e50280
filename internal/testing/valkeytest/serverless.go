package valkeytest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Serverless passes commands to a cluster node as a serverless cache of ElastiCache does:
// one address is all slots, commands that it lacks are refused, and HELLO says 7.2. See
// "Supported commands" of the ElastiCache user guide.
type Serverless struct {
	*Proxy

	mu      sync.Mutex
	refused []string // commands that it lacks, as they were asked for
	asked   int      // how often clients asked for the slots
	answers int      // commands on keys still to answer with text
	text    string   // an error of RESP
}

// lacking are the commands that a serverless cache does not have, by their first word or
// two.
var lacking = regexp.MustCompile(`^(MEMORY|FUNCTION|FCALL|FCALL_RO|KEYS|WAIT|CONFIG|DEBUG|MONITOR|OBJECT|` +
	`SLOWLOG|MULTI|EXEC|WATCH|ACL|REPLICAOF|SAVE|BGSAVE|SHUTDOWN|MIGRATE|` +
	`CLIENT (LIST|ID|INFO|TRACKING|KILL))( |$)`)

// StartServerless starts a cluster of one node behind a front that behaves like a
// serverless cache.
func StartServerless(t testing.TB) *Serverless {
	t.Helper()
	node := strings.TrimPrefix(StartCluster(t, 1, 0)[0], "valkey://")
	target, _, _ := strings.Cut(node, "?")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start front: %v", err)
	}
	s := &Serverless{Proxy: &Proxy{listener: listener, target: target, ended: make(chan struct{}),
		links: map[*link]bool{}}}
	var running sync.WaitGroup
	running.Go(func() { s.accept(&running) })
	t.Cleanup(func() {
		s.close()
		running.Wait()
	})
	return s
}

// URL returns the cache's address.
func (s *Serverless) URL() string { return "valkey://" + s.Address() + "?cluster=true" }

// Refused returns the commands of users that were refused so far.
func (s *Serverless) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.refused)))
}

// Asked returns how often clients asked for the slots.
func (s *Serverless) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Swap answers the next n commands on keys with MOVED to the same address, as after a
// change of the node behind it.
func (s *Serverless) Swap(n int) {
	s.Refuse(n, "MOVED 1 "+s.Address())
}

// Refuse answers the next n commands of users on keys with an error.
func (s *Serverless) Refuse(n int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.text = n, text
}

func (s *Serverless) accept(running *sync.WaitGroup) {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.target)
		if err != nil {
			_ = client.Close() // the client sees a closed connection
			continue
		}
		if l := (&link{client: client, server: server}); s.add(l) {
			running.Go(func() { s.serve(l) })
		}
	}
}

// serve answers one command after the other. It ends the link at the first error.
func (s *Serverless) serve(l *link) {
	defer func() {
		s.Proxy.mu.Lock()
		delete(s.links, l)
		s.Proxy.mu.Unlock()
		l.close()
	}()
	isUser := false // the tests' own connections may do everything
	requests, replies := bufio.NewReader(l.client), bufio.NewReader(l.server)
	for {
		words, raw, err := readCommand(requests)
		if err != nil {
			return
		}
		isUser = isUser || slices.Contains(words, "AUTH")
		answer := s.answer(words, isUser)
		if answer == nil {
			if _, err := l.server.Write(raw); err != nil {
				return
			}
			if answer, err = readReply(replies); err != nil {
				return
			}
			if strings.EqualFold(words[0], "HELLO") {
				answer = helloVersion.ReplaceAll(answer, []byte("version\r\n$$5\r\n7.2.6\r\n"))
			}
		}
		if _, err := l.client.Write(answer); err != nil {
			return
		}
	}
}

// onKeys matches some of the commands that a cluster can answer with MOVED.
var onKeys = regexp.MustCompile(`^(EVAL|EVALSHA|EVALSHA_RO|GET|SET|HGETALL)( |$)`)

var helloVersion = regexp.MustCompile(`version\r\n\$\d+\r\n[0-9.]+\r\n`)

// answer returns the front's own answer to a command of a user, or of the tests; nil if
// the node answers.
func (s *Serverless) answer(words []string, isUser bool) []byte {
	command := strings.ToUpper(words[0])
	if len(words) > 1 {
		command += " " + strings.ToUpper(words[1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isUser && lacking.MatchString(command):
		s.refused = append(s.refused, command)
		return []byte("-ERR unknown command '" + words[0] + "'\r\n")
	case command == "CLUSTER SLOTS":
		s.asked++
		return s.slots()
	case command == "CLUSTER SHARDS":
		s.asked++
		return []byte("-ERR this client must ask for CLUSTER SLOTS, since HELLO says 7.2\r\n")
	case isUser && s.answers > 0 && onKeys.MatchString(command):
		s.answers--
		return []byte("-" + s.text + "\r\n")
	}
	return nil
}

// slots returns the reply to CLUSTER SLOTS: all of them at the front's address.
func (s *Serverless) slots() []byte {
	host, port, _ := net.SplitHostPort(s.Address())
	return fmt.Appendf(nil, "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$4\r\nnode\r\n", len(host),
		host, port)
}

// readCommand reads an array of bulk strings, and returns its words and bytes.
func readCommand(r *bufio.Reader) (words []string, raw []byte, err error) {
	raw, err = readReply(r)
	if err != nil {
		return nil, nil, err
	}
	lines := bufio.NewReader(bytes.NewReader(raw))
	n, err := lengthOf(lines)
	if err != nil || n < 1 {
		return nil, nil, fmt.Errorf("want a command, got %.40q", raw)
	}
	for range n {
		length, err := lengthOf(lines)
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(lines, word); err != nil {
			return nil, nil, err
		}
		words = append(words, string(word[:length]))
	}
	return words, raw, nil
}

// lengthOf reads a line such as *3 or $5, and returns its number.
func lengthOf(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimRight(line, "\r\n")[1:])
}

// readReply reads one value of RESP, and returns its bytes.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	count, _ := strconv.Atoi(strings.TrimRight(string(line[1:]), "\r\n")) // not a number: unused
	switch line[0] {
	case '$', '=', '!':
		if count < 0 {
			return line, nil
		}
		content := make([]byte, count+2)
		_, err = io.ReadFull(r, content)
		return append(line, content...), err
	case '%', '|':
		count *= 2
	case '*', '~', '>':
	default:
		return line, nil
	}
	if line[0] == '|' {
		count++ // the value behind the attributes
	}
	for range max(count, 0) {
		item, err := readReply(r)
		if err != nil {
			return nil, err
		}
		line = append(line, item...)
	}
	return line, nil
}
