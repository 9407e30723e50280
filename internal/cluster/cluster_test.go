package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cluster"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// New servers become a cluster of three primaries and three replicas. Joining them again
// changes nothing.
func TestJoin(t *testing.T) {
	const nodes, primaries = 6, 3
	var addresses []string
	for range nodes {
		url := valkeytest.StartWith(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			"--repl-diskless-sync-delay", "0")
		addresses = append(addresses, strings.TrimPrefix(url, "valkey://"))
	}
	var before map[string]string
	for range 2 {
		if err := cluster.Join(t.Context(), cluster.User{}, primaries, addresses...); err != nil {
			t.Fatal(err)
		}
		roles := rolesOf(t, addresses[0])
		if len(roles) != nodes {
			t.Fatalf("got roles %v, want %d nodes", roles, nodes)
		}
		count := 0
		for id, role := range roles {
			if role == "master" {
				count++
			}
			if before != nil && before[id] != role {
				t.Errorf("the second join changed node %s from %q to %q", id, before[id], role)
			}
		}
		if count != primaries {
			t.Errorf("%d primaries, want %d", count, primaries)
		}
		before = roles
	}
}

// Join introduces nodes again if introductions are lost.
func TestLostIntroductions(t *testing.T) {
	const meet, none = "2", "-1" // message types of the cluster bus
	var addresses []string
	for range 3 {
		url := valkeytest.StartWith(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--enable-debug-command", "yes")
		addresses = append(addresses, strings.TrimPrefix(url, "valkey://"))
	}
	drop := func(kind string) {
		for _, a := range addresses {
			ask(t, a, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", kind)
		}
	}
	drop(meet)
	ctx, cancel := context.WithTimeout(t.Context(), waiting.Timeout)
	defer cancel()
	joined := make(chan error, 1)
	go func() { joined <- cluster.Join(ctx, cluster.User{}, 3, addresses...) }()
	waiting.Until(t, "the nodes are introduced", func() bool { return len(rolesOf(t, addresses[0])) == 3 })
	waiting.Until(t, "an introduction is forgotten", func() bool { return len(rolesOf(t, addresses[0])) < 3 })
	drop(none)
	if err := <-joined; err != nil {
		t.Error(err)
	}
}

// rolesOf returns the roles of all nodes by their ids.
func rolesOf(t *testing.T, address string) map[string]string {
	t.Helper()
	text := ask(t, address, "CLUSTER", "NODES")
	roles := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		words := strings.Fields(line)
		roles[words[0]] = strings.TrimPrefix(words[2], "myself,")
	}
	return roles
}

func ask(t *testing.T, address string, words ...string) string {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address},
		ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return text
}

func TestJoinUnreachableServer(t *testing.T) {
	if err := cluster.Join(t.Context(), cluster.User{}, 1, "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want an error with the server's address", err)
	}
}
