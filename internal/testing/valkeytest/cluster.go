package valkeytest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cluster"
	"tidegate/internal/testing/waiting"
)

const clusterTimeout = 60 * time.Second

// StartCluster starts a cluster of so many primaries with so many replicas each and
// returns the URL of every node, primaries first. A node counts as failed after 2 s, and
// the slots of the other nodes stay available then.
func StartCluster(t testing.TB, primaries, replicas int) []string {
	t.Helper()
	binary := findServer(t)
	var nodes []server
	for range primaries * (1 + replicas) {
		nodes = append(nodes, start(t, binary, clustered))
	}
	urls, err := join(t.Context(), primaries, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return urls
}

// clustered are the settings of a cluster's node.
var clustered = []string{
	"--cluster-enabled", "yes",
	"--cluster-announce-ip", "127.0.0.1",
	"--cluster-node-timeout", "2000",
	"--cluster-require-full-coverage", "no",
	"--repl-diskless-sync-delay", "0",
}

func join(ctx context.Context, primaries int, nodes []server) (urls []string, err error) {
	var addresses []string
	for _, s := range nodes {
		urls, addresses = append(urls, s.url()), append(addresses, s.address())
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := cluster.Join(ctx, cluster.User{}, primaries, addresses...); err != nil {
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	return urls, nil
}

// StartProxiedCluster starts a cluster of so many primaries, each behind a proxy whose
// address it gives to clients.
func StartProxiedCluster(t testing.TB, primaries int) []*Proxy {
	t.Helper()
	nodes := StartCluster(t, primaries, 0)
	var proxies []*Proxy
	var ports []string
	for _, node := range nodes {
		p := StartProxy(t, node, nil)
		_, port, err := net.SplitHostPort(p.Address())
		if err != nil {
			t.Fatal(err)
		}
		Ask(t, node, "CONFIG", "SET", "cluster-announce-port", port)
		proxies, ports = append(proxies, p), append(ports, port)
	}
	waiting.Until(t, "all nodes give out the proxies", func() bool {
		for _, node := range nodes {
			slots := Ask(t, node, "CLUSTER", "SLOTS")
			for _, port := range ports {
				if !strings.Contains(slots, port) {
					return false
				}
			}
		}
		return true
	})
	return proxies
}

// Ask sends a command to one server and returns its reply as text.
func Ask(t testing.TB, url string, words ...string) string {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{strings.TrimPrefix(url, "valkey://")}, ForceSingleClient: true,
		DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToAny()
	if err != nil {
		t.Fatalf("%s: %v", words[0], err)
	}
	return fmt.Sprint(reply)
}
