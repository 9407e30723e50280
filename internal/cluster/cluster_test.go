package cluster_test

import (
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cluster"
	"tidegate/internal/testing/valkeytest"
)

// Servers that know nothing become a cluster of three primaries and three replicas, and
// joining them again changes nothing.
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
			t.Fatalf("roles %v, want %d", roles, nodes)
		}
		count := 0
		for id, role := range roles {
			if role == "master" {
				count++
			}
			if before != nil && before[id] != role {
				t.Errorf("node %s was %q and is %q", id, before[id], role)
			}
		}
		if count != primaries {
			t.Errorf("%d primaries, want %d", count, primaries)
		}
		before = roles
	}
}

// rolesOf are the roles of all nodes by their ids.
func rolesOf(t *testing.T, address string) map[string]string {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address},
		ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, err := client.Do(t.Context(), client.B().ClusterNodes().Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		words := strings.Fields(line)
		roles[words[0]] = strings.TrimPrefix(words[2], "myself,")
	}
	return roles
}

func TestJoinNobody(t *testing.T) {
	if err := cluster.Join(t.Context(), cluster.User{}, 1, "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("a server that is not there: %v", err)
	}
}
