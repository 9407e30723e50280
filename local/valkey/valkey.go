// Package valkey starts a server for a local run: miniredis in this process, or a
// valkey-server found on PATH. Both start empty, listen only on 127.0.0.1 and keep no
// data.
package valkey

import (
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

// Server is a running Valkey server.
type Server struct {
	URL  string // valkey://127.0.0.1:port
	Name string // shown to people, such as "embedded (miniredis)"
	stop func()
}

// Address returns the server's host and port.
func (s *Server) Address() string { return strings.TrimPrefix(s.URL, "valkey://") }

// Close ends the server and removes what it wrote.
func (s *Server) Close() { s.stop() }

// Embedded starts miniredis on a free port. Its TIME and its TTLs follow the real time.
func Embedded() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded Valkey: %w", err)
	}
	return &Server{URL: "valkey://" + m.Addr(), Name: "embedded (miniredis)", stop: m.Close}, nil
}
