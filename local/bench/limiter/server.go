package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/local/bench/figures"
	local "tidegate/local/valkey"
)

const databases = 64

// server is a valkey-server without persistence, with a client that reads its statistics.
type server struct {
	*local.Server
	version string
	admin   valkey.Client
}

// start starts a server with a command such as "taskset -c 0 valkey-server" and returns
// when it accepts connections.
func start(ctx context.Context, command []string) (*server, error) {
	started, err := local.ByCommand(ctx, command, "--databases", strconv.Itoa(databases))
	if err != nil {
		return nil, err
	}
	s := &server{Server: started}
	if s.admin, err = figures.Dial(s.Address()); err != nil {
		started.Close()
		return nil, err
	}
	if s.version, err = figures.Version(ctx, s.admin); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	s.admin.Close()
	s.Close()
}

// empty removes all keys.
func (s *server) empty(ctx context.Context) error {
	if err := s.admin.Do(ctx, s.admin.B().Flushall().Sync().Build()).Error(); err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	return nil
}

// during runs work and returns what the server did meanwhile.
func (s *server) during(ctx context.Context, work func() error) (figures.Work, error) {
	done, err := figures.During(ctx, []valkey.Client{s.admin}, work)
	if err != nil {
		return figures.Work{}, err
	}
	return done[0], nil
}

// meanOf returns the time in microseconds of a check with these commands: the sum of the
// mean time of each.
func meanOf(w figures.Work, commands []string) float64 {
	total := 0.0
	for _, name := range commands {
		if calls, took := w.Of(name); calls > 0 {
			total += figures.Micros(took) / float64(calls)
		}
	}
	return total
}
