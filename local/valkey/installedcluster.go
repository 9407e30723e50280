//go:build unix

package valkey

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/cluster"
)

const clusterWait = 30 * time.Second

// Cluster is a running cluster of primaries without replicas, each with an even share of
// the slots.
type Cluster struct {
	URL   string // of all nodes
	Nodes []*Server
}

// InstalledCluster starts a number of servers as Installed does, and joins them to one
// cluster.
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
		addresses = append(addresses, s.Address())
	}
	c.URL = "valkey://" + strings.Join(addresses, ",") + "?cluster=true"
	ctx, cancel := context.WithTimeout(ctx, clusterWait)
	defer cancel()
	if err := cluster.Join(ctx, cluster.User{}, shards, addresses...); err != nil {
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
	return installed(ctx, "--cluster-enabled", "yes", "--cluster-port", bus,
		"--cluster-announce-ip", "127.0.0.1")
}
