package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// lifeline is a shell script that starts the server and kills it when standard input
// ends, as it does however this process ends.
const lifeline = `exec 3<&0
(read -r _ <&3; kill "$$") >/dev/null 2>&1 &
exec "$@"`

const databases = 64

// startTimeout bounds the wait for a server that neither starts nor ends.
const startTimeout = 30 * time.Second

// server is a valkey-server without persistence and a client that asks it about itself.
type server struct {
	address string
	version string
	command *exec.Cmd
	input   io.Closer
	admin   valkey.Client
}

// start starts a server with a command such as "taskset -c 0 valkey-server" and returns
// when it accepts connections.
func start(ctx context.Context, words []string) (*server, error) {
	const attempts = 5 // Another process may take the port that was free.
	var err error
	for range attempts {
		var s *server
		if s, err = launch(words); err == nil {
			return s, s.connect(ctx)
		}
	}
	return nil, err
}

func launch(words []string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address) // A listener's address has a port.
	words = append(append([]string{"-c", lifeline, "sh"}, words...), "--port", port, "--bind", "127.0.0.1",
		"--dir", os.TempDir(),
		"--save", "", "--appendonly", "no", "--databases", strconv.Itoa(databases))
	s := &server{address: address, command: exec.Command("sh", words...)} //nolint:gosec // The operator names the server.
	if s.input, err = s.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	output, err := s.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	s.command.Stderr = s.command.Stdout
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	deadline := time.AfterFunc(startTimeout, func() { _ = s.input.Close() }) // The server ends with it.
	defer deadline.Stop()
	if err := awaitReady(output); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func awaitReady(output io.Reader) error {
	var seen strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, output) }() // It must not block on a full pipe.
			return nil
		}
		seen.WriteString(lines.Text() + "\n")
	}
	return fmt.Errorf("the server ended, or was ended after %s, before it was ready and wrote:\n%s", startTimeout,
		seen.String())
}

func (s *server) connect(ctx context.Context) error {
	var err error
	s.admin, err = valkey.NewClient(valkey.ClientOption{InitAddress: []string{s.address},
		ForceSingleClient: true, DisableCache: true})
	if err != nil {
		s.stop()
		return fmt.Errorf("connect to the server: %w", err)
	}
	info, err := s.info(ctx, "server")
	s.version = info["valkey_version"]
	return err
}

func (s *server) stop() {
	if s.admin != nil {
		s.admin.Close()
	}
	_ = s.input.Close()
	_ = s.command.Wait() // A signal ended it.
}

func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.admin.Do(ctx, s.admin.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("ask the server for its %s: %w", section, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			values[name] = value
		}
	}
	return values, nil
}

// memory returns the bytes in use, without the buffers of connections.
func (s *server) memory(ctx context.Context) (int64, error) {
	info, err := s.info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseInt(info["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read used_memory: %w", err)
	}
	clients, err := strconv.ParseInt(info["mem_clients_normal"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read mem_clients_normal: %w", err)
	}
	return used - clients, nil
}

// empty removes all keys.
func (s *server) empty(ctx context.Context) error {
	if err := s.admin.Do(ctx, s.admin.B().Flushall().Sync().Build()).Error(); err != nil {
		return fmt.Errorf("empty the server: %w", err)
	}
	return nil
}

// account is the server time that some work took.
type account struct {
	processor time.Duration // CPU time of the process
	// microseconds that it counts for one command, the mean by name in lower case; a
	// script's include its commands
	commands map[string]float64
}

// of returns the microseconds of a check that consists of these commands.
func (a account) of(commands []string) float64 {
	total := 0.0
	for _, name := range commands {
		total += a.commands[name]
	}
	return total
}

// account does the work and returns what it took.
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
	commands, err := s.commands(ctx)
	return account{processor: after - before, commands: commands}, err
}

// processor returns the CPU time that the process has used.
func (s *server) processor(ctx context.Context) (time.Duration, error) {
	info, err := s.info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second)), nil
}

func (s *server) commands(ctx context.Context) (map[string]float64, error) {
	info, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	means := map[string]float64{}
	for entry, value := range info {
		name, found := strings.CutPrefix(entry, "cmdstat_")
		if !found {
			continue
		}
		var calls, micros int64
		if _, err := fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		means[name] = float64(micros) / float64(calls)
	}
	return means, nil
}
