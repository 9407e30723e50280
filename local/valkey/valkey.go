// Package valkey starts a store for a local run: miniredis in this process, or a
// valkey-server found on PATH. Both are empty at the start, listen only on 127.0.0.1 and
// lose everything at the end.
package valkey

// Server is a running store.
type Server struct {
	URL  string // valkey://127.0.0.1:port
	Name string // what it is, for people
	stop func()
}

// Close ends the server and removes what it wrote.
func (s *Server) Close() { s.stop() }
