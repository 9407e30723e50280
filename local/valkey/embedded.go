package valkey

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Embedded starts miniredis on a free port. Its TIME is the real time, and its TTLs run
// with it.
func Embedded() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded Valkey: %w", err)
	}
	return &Server{URL: "valkey://" + m.Addr(), Name: "embedded (miniredis)", stop: m.Close}, nil
}
