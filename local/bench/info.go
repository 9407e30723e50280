package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Dial connects to one server, even if it is part of a cluster.
func Dial(address string) (valkey.Client, error) {
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true,
		DisableCache: true,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return client, nil
}

// info reads a section of a server's INFO, such as "memory" or "everything".
func info(ctx context.Context, client valkey.Client, section string) (map[string]string, error) {
	text, err := client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("read section %s of INFO: %w", section, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			values[name] = value
		}
	}
	return values, nil
}

// Memory returns the bytes that a server uses, without the buffers of client connections,
// once they have been the same for a second: the server shrinks buffers gradually.
func Memory(ctx context.Context, client valkey.Client) (int64, error) {
	last, same := int64(0), 0
	for range 200 {
		values, err := info(ctx, client, "memory")
		if err != nil {
			return 0, err
		}
		var used, buffers int64
		err = parse(values, map[string]*int64{"used_memory": &used, "mem_clients_normal": &buffers})
		if err != nil {
			return 0, err
		}
		if same++; used-buffers != last {
			last, same = used-buffers, 0
		}
		if same == 10 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return last, nil
}

// parse parses whole numbers of INFO.
func parse(values map[string]string, fields map[string]*int64) (err error) {
	for name, field := range fields {
		if *field, err = strconv.ParseInt(values[name], 10, 64); err != nil {
			return fmt.Errorf("read %s of INFO: %w", name, err)
		}
	}
	return nil
}

// Work is what a server did and used while something ran. The command that reads it
// counts as one command.
type Work struct {
	Processor  time.Duration // of the process
	MainThread time.Duration // of the thread that runs the commands
	Commands   int64         // number of commands
	Received   int64         // bytes

	calls map[string]int64 // by command
	took  map[string]time.Duration
}

// Of returns the number of calls of commands, named in lower case, and their total time.
// A script's time includes its commands.
func (w *Work) Of(commands ...string) (calls int64, took time.Duration) {
	for _, name := range commands {
		calls, took = calls+w.calls[name], took+w.took[name]
	}
	return calls, took
}

// During runs do and returns what each server did meanwhile.
func During(ctx context.Context, servers []valkey.Client, do func() error) ([]Work, error) {
	all := make([]Work, len(servers))
	for i, server := range servers {
		if err := all[i].add(ctx, server, -1); err != nil {
			return nil, err
		}
	}
	if err := do(); err != nil {
		return nil, err
	}
	for i, server := range servers {
		if err := all[i].add(ctx, server, 1); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add adds, or subtracts if sign is -1, what a server did since its start.
func (w *Work) add(ctx context.Context, server valkey.Client, sign int64) error {
	values, err := info(ctx, server, "everything")
	if err != nil {
		return err
	}
	var commands, received int64
	if err := parse(values, map[string]*int64{"total_commands_processed": &commands,
		"total_net_input_bytes": &received}); err != nil {
		return err
	}
	w.Commands += sign * commands
	w.Received += sign * received
	for field, total := range map[string]*time.Duration{
		"used_cpu_user": &w.Processor, "used_cpu_sys": &w.Processor,
		"used_cpu_user_main_thread": &w.MainThread, "used_cpu_sys_main_thread": &w.MainThread,
	} {
		d, err := time.ParseDuration(values[field] + "s")
		if err != nil {
			return fmt.Errorf("read %s of INFO: %w", field, err)
		}
		*total += time.Duration(sign) * d
	}
	if w.calls == nil {
		w.calls, w.took = map[string]int64{}, map[string]time.Duration{}
	}
	for name, value := range values {
		command, found := strings.CutPrefix(name, "cmdstat_")
		var calls, micros int64
		if !found {
			continue
		}
		if _, err := fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros); err != nil {
			return fmt.Errorf("read %s of INFO: %w", name, err)
		}
		w.calls[command] += sign * calls
		w.took[command] += time.Duration(sign*micros) * time.Microsecond
	}
	return nil
}
