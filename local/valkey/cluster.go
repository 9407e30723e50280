//go:build unix

package valkey

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
	slots       = 16384
	clusterWait = 30 * time.Second
)

// Cluster is running primaries, each with an even share of the slots, and no replicas.
type Cluster struct {
	URL   string // of all nodes
	Nodes []*Server
}

// InstalledCluster starts so many primaries of the server that Installed starts, and returns when they are one cluster.
func InstalledCluster(ctx context.Context, shards int) (*Cluster, error) {
	c := &Cluster{}
	var addresses []string
	for range shards {
		s, err := clusterNode(ctx)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.Nodes = append(c.Nodes, s)
		addresses = append(addresses, s.address())
	}
	c.URL = "valkey://" + strings.Join(addresses, ",") + "?cluster=true"
	if err := c.join(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	return c, nil
}

// Close ends all nodes.
func (c *Cluster) Close() {
	for _, s := range c.Nodes {
		s.Close()
	}
}

func clusterNode(ctx context.Context) (*Server, error) {
	_, bus, err := freePort()
	if err != nil {
		return nil, err
	}
	return installed(ctx, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-announce-ip", "127.0.0.1")
}

func (s *Server) address() string { return strings.TrimPrefix(s.URL, "valkey://") }

// join gives each node its slots and introduces all to the first.
func (c *Cluster) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterWait)
	defer cancel()
	for i, s := range c.Nodes {
		first, last := slots*i/len(c.Nodes), slots*(i+1)/len(c.Nodes)-1
		commands := [][]string{
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)},
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
		}
		if i > 0 {
			meet, err := c.Nodes[0].meet(ctx)
			if err != nil {
				return err
			}
			commands = append(commands, meet)
		}
		for _, words := range commands {
			if _, err := s.ask(ctx, words...); err != nil {
				return err
			}
		}
	}
	return c.await(ctx)
}

// meet returns the command that introduces another node to this one.
func (s *Server) meet(ctx context.Context) ([]string, error) {
	reply, err := s.ask(ctx, "CONFIG", "GET", "cluster-port")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.address())
	return []string{"CLUSTER", "MEET", host, port, reply[strings.LastIndexByte(reply, ' ')+1:]}, err
}

// await returns when every node sees all slots served.
func (c *Cluster) await(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for _, s := range c.Nodes {
		for {
			info, err := s.ask(ctx, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes))) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s does not see all of it: %w", s.address(), ctx.Err())
			case <-tick.C:
			}
		}
	}
	return nil
}

// ask returns a reply as text, an array's elements apart by spaces.
func (s *Server) ask(ctx context.Context, words ...string) (string, error) {
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{s.address()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return "", err
	}
	defer client.Close()
	reply := client.Do(ctx, client.B().Arbitrary(words...).Build())
	pairs, err := reply.AsStrMap()
	if err == nil {
		var text []string
		for name, value := range pairs {
			text = append(text, name+" "+value)
		}
		return strings.Join(text, " "), nil
	}
	text, err := reply.ToString()
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s on %s", strings.Join(words, " "), s.address()), err)
	}
	return text, nil
}
