package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

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
	info, err := figures.ReadInfo(ctx, s.admin, "server")
	if err != nil {
		s.stop()
		return nil, err
	}
	s.version = info.Text("valkey_version")
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

// account is the server time of some work.
type account struct {
	processor time.Duration // of the process
	commands  *figures.Info // statistics of the work's commands
}

// of returns the time in microseconds of a check with these commands: the sum of the mean
// time of each.
func (a account) of(commands []string) float64 {
	total := 0.0
	for _, name := range commands {
		if calls, took := a.commands.Commands(name); calls > 0 {
			total += figures.Micros(took) / float64(calls)
		}
	}
	return total
}

// account runs work and returns its server time.
func (s *server) account(ctx context.Context, work func() error) (account, error) {
	if err := s.admin.Do(ctx, s.admin.B().ConfigResetstat().Build()).Error(); err != nil {
		return account{}, fmt.Errorf("reset the server's statistics: %w", err)
	}
	before, err := s.processor(ctx)
	if err != nil {
		return account{}, err
	}
	if err := work(); err != nil {
		return account{}, err
	}
	after, err := s.processor(ctx)
	if err != nil {
		return account{}, err
	}
	commands, err := figures.ReadInfo(ctx, s.admin, "commandstats")
	return account{processor: after - before, commands: commands}, err
}

// processor returns the processor time of the server's process so far.
func (s *server) processor(ctx context.Context) (time.Duration, error) {
	info, err := figures.ReadInfo(ctx, s.admin, "cpu")
	if err != nil {
		return 0, err
	}
	return info.Processor(), info.Err()
}
