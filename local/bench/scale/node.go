//go:build unix

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
	"tidegate/local/bench/serverinfo"
	server "tidegate/local/valkey"
)

// node reads a server's statistics.
type node struct{ client valkey.Client }

func openNode(s *server.Server) (*node, error) {
	client, err := serverinfo.Dial(s.Address())
	return &node{client}, err
}

// reading is what a server has used so far.
type reading struct {
	processor time.Duration // of its process
	scripts   int64         // that were run
	scripting time.Duration // in them
	gets      int64         // that were answered
	getting   time.Duration // in them
	received  int64         // bytes
}

func (r reading) minus(before reading) reading {
	return reading{
		r.processor - before.processor, r.scripts - before.scripts, r.scripting - before.scripting,
		r.gets - before.gets, r.getting - before.getting, r.received - before.received,
	}
}

func (n *node) read(ctx context.Context) (reading, error) {
	info, err := serverinfo.Read(ctx, n.client, "everything")
	if err != nil {
		return reading{}, err
	}
	r := reading{received: info.Integer("total_net_input_bytes"), processor: info.Processor()}
	r.gets, r.getting = info.Commands("get")
	for _, name := range []string{"evalsha", "eval"} {
		calls, took := info.Commands(name)
		r.scripts, r.scripting = r.scripts+calls, r.scripting+took
	}
	return r, info.Err()
}

// The server shrinks the buffers of connections bit by bit, so its memory is read every
// readEvery until it no longer changes, at most readings times.
const (
	readEvery = 100 * time.Millisecond
	readings  = 200
)

// memory returns the bytes in use, without the buffers of connections, once they have
// been the same still times in a row.
func (n *node) memory(ctx context.Context, still int) (int64, error) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	last, same := int64(0), 0
	for range readings {
		now, err := n.bytes(ctx)
		if err != nil {
			return 0, err
		}
		if same++; now != last {
			last, same = now, 0
		}
		if same == still {
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
	return last, nil
}

func (n *node) bytes(ctx context.Context) (int64, error) {
	info, err := serverinfo.Read(ctx, n.client, "memory")
	if err != nil {
		return 0, err
	}
	return info.Memory(), info.Err()
}

// audit returns the bytes of the audit's entries.
func (n *node) audit(ctx context.Context) (int64, error) {
	total := int64(0)
	for _, b := range keyspace.All() {
		size, err := n.client.Do(ctx, n.client.B().MemoryUsage().Key(audit.Stream(b)).Samples(
			0).Build()).AsInt64()
		if err != nil && !valkey.IsValkeyNil(err) {
			return 0, fmt.Errorf("ask for the size of the audit: %w", err)
		}
		total += size
	}
	return total, nil
}

// nodes are all nodes of a cluster.
type nodes []*node

func openNodes(servers []*server.Server) (nodes, error) {
	var all nodes
	for _, s := range servers {
		n, err := openNode(s)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func (all nodes) close() {
	for _, n := range all {
		n.client.Close()
	}
}

// during returns what each node used while do ran.
func (all nodes) during(ctx context.Context, do func() error) ([]reading, error) {
	before, err := all.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := all.read(ctx)
	for i := range after {
		after[i] = after[i].minus(before[i])
	}
	return after, err
}

func (all nodes) read(ctx context.Context) ([]reading, error) {
	readings := make([]reading, len(all))
	for i, n := range all {
		var err error
		if readings[i], err = n.read(ctx); err != nil {
			return nil, err
		}
	}
	return readings, nil
}
