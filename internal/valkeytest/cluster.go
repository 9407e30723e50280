package valkeytest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	slots          = 16384
	clusterTimeout = 60 * time.Second
	// pollEvery is how often a node is asked for the news it has, which it only offers on being asked.
	pollEvery = 20 * time.Millisecond
)

// StartCluster starts a cluster of so many primaries with so many replicas each and returns the URL of every node, primaries first. A
// node counts as failed after 2 s, and the slots of the other nodes stay available then.
func StartCluster(t testing.TB, primaries, replicas int) []string {
	t.Helper()
	binary := findServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
	defer cancel()
	c := make(cluster, primaries*(1+replicas))
	urls := make([]string, len(c))
	for i := range c {
		c[i] = startNode(t, binary)
		urls[i] = c[i].url()
	}
	if err := c.join(ctx, primaries); err != nil {
		t.Fatalf("join the cluster: %v", err)
	}
	return urls
}

// cluster lists its primaries first.
type cluster []node

// node is one server of a cluster, with a client that talks to it alone.
type node struct {
	server
	client valkey.Client
}

func startNode(t testing.TB, binary string) node {
	t.Helper()
	s := start(t, binary, []string{
		"--cluster-enabled", "yes",
		"--cluster-announce-ip", "127.0.0.1",
		"--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "no",
		"--repl-diskless-sync-delay", "0",
	})
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{s.address()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatalf("connect to %s: %v", s.address(), err)
	}
	t.Cleanup(client.Close)
	return node{server: s, client: client}
}

// join makes one cluster of nodes that do not know each other, and returns when every node sees all of it.
func (c cluster) join(ctx context.Context, primaries int) error {
	if err := c.assignSlots(ctx, primaries); err != nil {
		return err
	}
	if err := c.meet(ctx); err != nil {
		return err
	}
	if err := c.await(ctx, "all nodes are known", c.acquainted); err != nil {
		return err
	}
	if err := c.replicate(ctx, primaries); err != nil {
		return err
	}
	return c.await(ctx, "the cluster is ok", func(ctx context.Context, n node) (bool, error) { return c.settled(ctx, n, primaries) })
}

func (c cluster) assignSlots(ctx context.Context, primaries int) error {
	for i, n := range c[:primaries] {
		first, last := slots*i/primaries, slots*(i+1)/primaries-1
		if _, err := n.ask(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return err
		}
		// Distinct from the start, so that the nodes need not settle whose slots are the newer.
		if _, err := n.ask(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// meet introduces every node to every other, as waiting for them to gossip takes seconds.
func (c cluster) meet(ctx context.Context) error {
	for i, n := range c {
		for _, other := range c[i+1:] {
			if _, err := n.ask(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replicate spreads the replicas over the primaries in turn.
func (c cluster) replicate(ctx context.Context, primaries int) error {
	for i, n := range c[primaries:] {
		id, err := c[i%primaries].ask(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := n.ask(ctx, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return nil
}

// acquainted tells whether the node has shaken hands with all others.
func (c cluster) acquainted(ctx context.Context, n node) (bool, error) {
	nodes, err := n.ask(ctx, "CLUSTER", "NODES")
	return strings.Count(nodes, "\n") == len(c) && !strings.Contains(nodes, "handshake"), err
}

// settled tells whether the node sees every slot served, every replica, and, if it is one, its primary.
func (c cluster) settled(ctx context.Context, n node, primaries int) (bool, error) {
	info, err := n.ask(ctx, "CLUSTER", "INFO")
	if err != nil {
		return false, err
	}
	nodes, err := n.ask(ctx, "CLUSTER", "NODES")
	if err != nil {
		return false, err
	}
	replication, err := n.ask(ctx, "INFO", "replication")
	if err != nil {
		return false, err
	}
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots)) &&
		strings.Count(nodes, "slave ") == len(c)-primaries &&
		!strings.Contains(replication, "master_link_status:down"), nil
}

// await asks each node in turn until the condition holds there.
func (c cluster) await(ctx context.Context, what string, holds func(context.Context, node) (bool, error)) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for _, n := range c {
		for {
			ok, err := holds(ctx, n)
			if err != nil {
				return fmt.Errorf("until %s: %w", what, err)
			}
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("until %s on %s: %w", what, n.address(), ctx.Err())
			case <-poll.C:
			}
		}
	}
	return nil
}

func (n node) ask(ctx context.Context, words ...string) (string, error) {
	answer, err := n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w", strings.Join(words, " "), n.address(), err)
	}
	return answer, nil
}
