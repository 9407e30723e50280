//go:build unix

package scale

import (
	"context"
	"slices"

	server "tidegate/local/valkey"
)

// cluster is a Valkey cluster under measurement. It is closed even after an error.
type cluster struct {
	url      string
	nodes    nodes
	registry *keyRegistry
	closers  []func()
}

func openCluster(ctx context.Context, shards int) (*cluster, error) {
	c := &cluster{}
	servers, err := server.InstalledCluster(ctx, shards)
	if err != nil {
		return c, err
	}
	c.url, c.closers = servers.URL, append(c.closers, servers.Close)
	if c.nodes, err = openNodes(servers.Nodes); err != nil {
		return c, err
	}
	c.closers = append(c.closers, c.nodes.close)
	if c.registry, err = openRegistry(ctx, c.url); err != nil {
		return c, err
	}
	c.closers = append(c.closers, c.registry.client.Close)
	return c, nil
}

// close ends what openCluster started, the last first.
func (c *cluster) close() {
	for _, end := range slices.Backward(c.closers) {
		end()
	}
}
