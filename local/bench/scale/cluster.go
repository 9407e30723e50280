//go:build unix

package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/local/bench/figures"
	"tidegate/local/bench/harness"
)

// timeout bounds the time of a command or a connection of the benchmark.
const timeout = 10 * time.Second

func storeOptions(pooled bool) store.Options {
	return store.Options{Dial: timeout, Write: timeout, Pooled: pooled}
}

// cluster is a Valkey cluster, or a single server, under measurement.
type cluster struct {
	*harness.Server
	nodes []valkey.Client // one for each shard, to read its statistics
}

func openCluster(ctx context.Context, shards int) (*cluster, error) {
	return connect(harness.StartCluster(ctx, "scale", shards, storeOptions(false)))
}

// openServer starts a single server without cluster mode.
func openServer(ctx context.Context) (*cluster, error) {
	return connect(harness.Start(ctx, "scale", storeOptions(false)))
}

func connect(s *harness.Server, err error) (*cluster, error) {
	if err != nil {
		return nil, err
	}
	c := &cluster{Server: s}
	for _, server := range s.Nodes {
		node, err := figures.Dial(server.Address())
		if err != nil {
			s.Close()
			return nil, err
		}
		s.OnClose(node.Close)
		c.nodes = append(c.nodes, node)
	}
	return c, nil
}

// calls creates n keys of a plan and returns a call with each.
func (c *cluster) calls(ctx context.Context, plan string, n int) ([]enforce.Call, error) {
	keys, err := c.Keys(ctx, plan, "test", n)
	calls := make([]enforce.Call, len(keys))
	for i, k := range keys {
		calls[i] = enforce.Call{Kind: policy.APIKey, Subject: k.ID, Secret: k.Secret}
	}
	return calls, err
}

// The server shrinks the buffers of connections gradually. So its memory is read every
// readEvery until it no longer changes, at most maxReads times.
const (
	readEvery = 100 * time.Millisecond
	maxReads  = 200
)

// memory returns the bytes that the first node uses, without the buffers of connections.
// It waits until stable readings in a row equal the one before.
func (c *cluster) memory(ctx context.Context, stable int) (int64, error) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	last, same := int64(0), 0
	for range maxReads {
		now, err := figures.Memory(ctx, c.nodes[0])
		if err != nil {
			return 0, err
		}
		if same++; now != last {
			last, same = now, 0
		}
		if same == stable {
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

// auditBytes returns the memory of the audit log.
func (c *cluster) auditBytes(ctx context.Context) (int64, error) {
	total := int64(0)
	for _, b := range keyspace.All() {
		size, err := c.Client.Do(ctx,
			c.Client.B().MemoryUsage().Key(audit.Stream(b)).Samples(0).Build()).AsInt64()
		if err != nil && !valkey.IsValkeyNil(err) {
			return 0, fmt.Errorf("read the size of the audit log: %w", err)
		}
		total += size
	}
	return total, nil
}
