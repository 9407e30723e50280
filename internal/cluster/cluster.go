// Package cluster joins running Valkey servers to one cluster, as valkey-cli --cluster
// create does, but by host names. Joining again repairs a cluster whose nodes restarted
// with other addresses.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	slots = 16384
	// pollEvery is the time between two queries of a node's view of the cluster.
	pollEvery = 20 * time.Millisecond
	// meetAgainAfter is longer than a node waits for the answer to an introduction: its
	// cluster-node-timeout, which is 2 s in tests.
	meetAgainAfter = 3 * time.Second
	// verbatim is the prefix of a RESP3 verbatim string of plain text.
	verbatim = "txt:"
)

// User logs in to every node. It needs all rights.
type User struct{ Name, Password string }

// node is a server with its own client.
type node struct {
	address string // host:port
	client  valkey.Client
}

// Join makes one cluster of the nodes, each host:port. The first ones become primaries;
// the others become replicas, shared evenly. Join returns when every node sees the whole
// cluster. It assigns slots and replicas only if no node has slots yet.
func Join(ctx context.Context, user User, primaries int, addresses ...string) error {
	c, err := open(user, addresses)
	defer c.close()
	if err != nil {
		return err
	}
	info, err := c[0].run(ctx, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	fresh := strings.Contains(info, "cluster_slots_assigned:0\r")
	if fresh {
		if err := c.assignSlots(ctx, primaries); err != nil {
			return err
		}
	}
	if err := c.introduce(ctx); err != nil {
		return err
	}
	if fresh {
		if err := c.replicate(ctx, primaries); err != nil {
			return err
		}
	}
	return c.await(ctx, "the cluster is ok", healthy(len(c)-primaries))
}

// cluster is the nodes, primaries first.
type cluster []node

func open(user User, addresses []string) (cluster, error) {
	var c cluster
	for _, address := range addresses {
		client, err := valkey.NewClient(valkey.ClientOption{
			InitAddress: []string{address}, Username: user.Name, Password: user.Password,
			ForceSingleClient: true, DisableCache: true,
		})
		if err != nil {
			return c, fmt.Errorf("connect to %s: %w", address, err)
		}
		c = append(c, node{address, client})
	}
	return c, nil
}

func (c cluster) close() {
	for _, n := range c {
		n.client.Close()
	}
}

func (c cluster) assignSlots(ctx context.Context, primaries int) error {
	for i, n := range c[:primaries] {
		first, last := slots*i/primaries, slots*(i+1)/primaries-1
		if _, err := n.run(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first),
			strconv.Itoa(last)); err != nil {
			return err
		}
		// Distinct epochs, so that the nodes need not agree on new ones first.
		if _, err := n.run(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// introduce makes all nodes known to each other. Nodes forget an introduction that is not
// answered in time, so it is made again.
func (c cluster) introduce(ctx context.Context) error {
	for {
		if err := c.meet(ctx); err != nil {
			return err
		}
		answers, cancel := context.WithTimeout(ctx, meetAgainAfter)
		err := c.await(answers, "all nodes are known", c.handshaken)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// meet introduces every node to every other, since gossip alone takes seconds. Nodes that
// know each other learn changed addresses.
func (c cluster) meet(ctx context.Context) error {
	for i, other := range c {
		meet, err := other.introduction(ctx)
		if err != nil {
			return err
		}
		for j, n := range c {
			if i == j {
				continue
			}
			if _, err := n.run(ctx, meet...); err != nil {
				return err
			}
		}
	}
	return nil
}

// introduction returns the command that makes another node meet this one.
func (n node) introduction(ctx context.Context) ([]string, error) {
	ip, port, err := resolve(ctx, n.address)
	if err != nil {
		return nil, err
	}
	const setting = "cluster-port"
	settings, err := n.client.Do(ctx, n.client.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("CONFIG GET %s on %s: %w", setting, n.address, err)
	}
	meet := []string{"CLUSTER", "MEET", ip, port}
	if bus := settings[setting]; bus != "0" {
		meet = append(meet, bus)
	}
	return meet, nil
}

func resolve(ctx context.Context, address string) (ip, port string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", fmt.Errorf("address of a node: %w", err)
	}
	all, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", "", fmt.Errorf("address of a node: %w", err)
	}
	return all[0], port, nil
}

// replicate assigns the replicas to the primaries in turn.
func (c cluster) replicate(ctx context.Context, primaries int) error {
	for i, n := range c[primaries:] {
		id, err := c[i%primaries].run(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := n.run(ctx, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return nil
}

// handshaken reports whether the node has completed the handshake with all others.
func (c cluster) handshaken(ctx context.Context, n node) (bool, error) {
	nodes, err := n.run(ctx, "CLUSTER", "NODES")
	return strings.Count(nodes, "\n") == len(c) && !strings.Contains(nodes, "handshake"), err
}

// healthy returns a condition of one node. The node sees every slot served, all nodes
// alive and the given number of replicas; a replica is connected to its primary. Each
// node learns by itself which others are replicas, so every node must be asked.
func healthy(replicas int) func(context.Context, node) (bool, error) {
	return func(ctx context.Context, n node) (bool, error) {
		info, err := n.run(ctx, "CLUSTER", "INFO")
		if err != nil {
			return false, err
		}
		nodes, err := n.run(ctx, "CLUSTER", "NODES")
		if err != nil {
			return false, err
		}
		replication, err := n.run(ctx, "INFO", "replication")
		if err != nil {
			return false, err
		}
		return strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots)) &&
			!strings.Contains(nodes, "fail") && !strings.Contains(nodes, "disconnected") &&
			replicasIn(nodes) == replicas &&
			!strings.Contains(replication, "master_link_status:down"), nil
	}
}

// replicasIn counts the replicas in a reply to CLUSTER NODES: one line for each node,
// with its flags in the third word.
func replicasIn(nodes string) int {
	count := 0
	for line := range strings.Lines(nodes) {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(words[2], "slave") {
			count++
		}
	}
	return count
}

// await polls each node in turn until the condition holds there. what names the condition
// in errors.
func (c cluster) await(ctx context.Context, what string,
	holds func(context.Context, node) (bool, error)) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for _, n := range c {
		for {
			ok, err := holds(ctx, n)
			if err != nil {
				return fmt.Errorf("wait until %s: %w", what, err)
			}
			if ok {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait until %s on %s: %w", what, n.address, ctx.Err())
			case <-poll.C:
			}
		}
	}
	return nil
}

// run runs a command and returns its reply as text.
func (n node) run(ctx context.Context, words ...string) (string, error) {
	reply, err := n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w", strings.Join(words, " "), n.address, err)
	}
	return strings.TrimPrefix(reply, verbatim), nil
}
