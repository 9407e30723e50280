//go:build unix

package main

import (
	"context"

	server "tidegate/local/valkey"
)

// cluster is a Valkey cluster under measurement.
type cluster struct {
	url     string
	nodes   nodes
	servers *server.Cluster
}

func openCluster(ctx context.Context, shards int) (*cluster, error) {
	servers, err := server.InstalledCluster(ctx, shards)
	if err != nil {
		return nil, err
	}
	all, err := openNodes(servers.Nodes)
	if err != nil {
		servers.Close()
		return nil, err
	}
	return &cluster{servers.URL, all, servers}, nil
}

func (c *cluster) close() {
	c.nodes.close()
	c.servers.Close()
}
