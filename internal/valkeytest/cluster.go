package valkeytest

import (
	"context"
	"testing"
	"time"

	"tidegate/internal/cluster"
)

const clusterTimeout = 60 * time.Second

// StartCluster starts a cluster of so many primaries with so many replicas each and returns the URL of every node, primaries first. A
// node counts as failed after 2 s, and the slots of the other nodes stay available then.
func StartCluster(t testing.TB, primaries, replicas int) []string {
	t.Helper()
	binary := findServer(t)
	var urls, addresses []string
	for range primaries * (1 + replicas) {
		s := start(t, binary, []string{
			"--cluster-enabled", "yes",
			"--cluster-announce-ip", "127.0.0.1",
			"--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no",
			"--repl-diskless-sync-delay", "0",
		})
		urls, addresses = append(urls, s.url()), append(addresses, s.address())
	}
	ctx, cancel := context.WithTimeout(t.Context(), clusterTimeout)
	defer cancel()
	if err := cluster.Join(ctx, cluster.User{}, primaries, addresses...); err != nil {
		t.Fatalf("join the cluster: %v", err)
	}
	return urls
}
