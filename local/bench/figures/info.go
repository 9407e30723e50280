package figures

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

// Info is a Valkey server's reply to INFO: its processor time, memory and command
// statistics.
type Info struct {
	values map[string]string
	err    error
}

// ReadInfo reads a section of INFO, such as "cpu" or "everything".
func ReadInfo(ctx context.Context, client valkey.Client, section string) (*Info, error) {
	text, err := client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("read section %s of INFO: %w", section, err)
	}
	i := &Info{values: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			i.values[name] = value
		}
	}
	return i, nil
}

// Memory returns the bytes that a server uses, without the buffers of client connections.
func Memory(ctx context.Context, client valkey.Client) (int64, error) {
	i, err := ReadInfo(ctx, client, "memory")
	if err != nil {
		return 0, err
	}
	return i.Integer("used_memory") - i.Integer("mem_clients_normal"), i.Err()
}

// Err returns the error of the first number that could not be parsed.
func (i *Info) Err() error { return i.err }

// Text returns a field; "" if the reply does not have it.
func (i *Info) Text(name string) string { return i.values[name] }

// Integer returns a field that is a whole number. It returns 0 after an error: see Err.
func (i *Info) Integer(name string) int64 {
	n, err := strconv.ParseInt(i.values[name], 10, 64)
	i.note(name, err)
	return n
}

// note stores the first error for Err.
func (i *Info) note(name string, err error) {
	if err != nil && i.err == nil {
		i.err = fmt.Errorf("read %s of INFO: %w", name, err)
	}
}

// Processor returns the processor time of the whole process, of section cpu.
func (i *Info) Processor() time.Duration { return i.seconds("used_cpu_user", "used_cpu_sys") }

// MainThread returns the processor time of the thread that runs the commands, of section
// cpu.
func (i *Info) MainThread() time.Duration {
	return i.seconds("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
}

func (i *Info) seconds(names ...string) time.Duration {
	total := time.Duration(0)
	for _, name := range names {
		d, err := time.ParseDuration(i.values[name] + "s")
		i.note(name, err)
		total += d
	}
	return total
}

// Commands returns the number of calls of a command, named in lower case, and their total
// time, of section commandstats. It returns zeros if there were no calls. A script's time
// includes its commands.
func (i *Info) Commands(name string) (calls int64, took time.Duration) {
	var micros int64
	if _, err := fmt.Sscanf(i.values["cmdstat_"+name], "calls=%d,usec=%d", &calls, &micros); err != nil {
		return 0, 0
	}
	return calls, time.Duration(micros) * time.Microsecond
}
