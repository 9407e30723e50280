package valkeytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cluster"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/waiting"
)

const clusterTimeout = 60 * time.Second

// StartCluster starts a cluster of primaries, each with a number of replicas, and returns
// the URL of every node, primaries first. A node counts as failed after 2 s; the slots of
// the other nodes stay available. A test that calls it belongs to tier 2.
func StartCluster(t testing.TB, primaries, replicas int) []string {
	t.Helper()
	tier.Two(t, "starts a cluster")
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

// clustered has the settings of a cluster node.
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

// StartProxiedCluster starts a cluster of primaries, each behind a proxy whose address it
// announces to clients.
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
	waiting.Until(t, "all nodes announce the proxies", func() bool {
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

// shared is the cluster that the tests of a package use in turn.
var shared struct {
	allowed bool // TestMain called Run
	used    bool // a test uses it now
	folder  string
	nodes   []server
	url     string // empty before the first use
}

// Run runs the tests of a package that uses SharedCluster, then stops the cluster.
// TestMain calls it.
func Run(m *testing.M) int {
	shared.allowed = true
	defer endShared()
	return m.Run()
}

// SharedCluster returns the URL of a cluster of 3 primaries without data, scripts and
// users. The tests of a package share it, since a new cluster accepts no commands for 2
// s. Tests that stop nodes or change settings must start their own. A test that calls it
// belongs to tier 2.
func SharedCluster(t testing.TB) string {
	t.Helper()
	tier.Two(t, "starts a cluster")
	switch {
	case !shared.allowed:
		t.Fatal("TestMain of the package must call valkeytest.Run")
	case shared.used:
		t.Fatal("another test uses the cluster")
	}
	if shared.url == "" {
		if err := startShared(findServer(t)); err != nil {
			endShared()
			t.Fatal(err)
		}
	}
	for _, s := range shared.nodes {
		Ask(t, s.url(), "FLUSHALL")
		Ask(t, s.url(), "SCRIPT", "FLUSH")
		Ask(t, s.url(), "ACL", "LOAD")
		Ask(t, s.url(), "ACL", "LOG", "RESET")
	}
	shared.used = true
	t.Cleanup(func() {
		shared.used = false
		for _, s := range shared.nodes {
			s.logAfterFailure(t)
		}
	})
	return shared.url
}

func startShared(binary string) (err error) {
	if shared.folder, err = os.MkdirTemp("", "cluster"); err != nil {
		return err
	}
	for i := range 3 {
		folder := filepath.Join(shared.folder, strconv.Itoa(i))
		users := filepath.Join(folder, "users.acl") // ACL LOAD resets the users to it
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(users, nil, 0o600)); err != nil {
			return err
		}
		s, err := launch(binary, folder, append([]string{"--aclfile", users}, clustered...))
		if err != nil {
			return err
		}
		shared.nodes = append(shared.nodes, s)
	}
	urls, err := join(context.Background(), len(shared.nodes), shared.nodes)
	if err != nil {
		return err
	}
	shared.url = urls[0] + "?cluster=true"
	return nil
}

func endShared() {
	for _, s := range shared.nodes {
		s.stop()
	}
	_ = os.RemoveAll(shared.folder)
	shared.nodes, shared.url = nil, ""
}
