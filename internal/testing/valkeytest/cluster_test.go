package valkeytest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"
)

// The primaries serve every slot, and no other node serves any. A write to a primary
// reaches its replica.
func TestStartCluster(t *testing.T) {
	const primaries, replicas = 3, 1
	urls := StartCluster(t, primaries, replicas)
	if len(urls) != primaries*(1+replicas) {
		t.Fatalf("got %d nodes, want %d", len(urls), primaries*(1+replicas))
	}
	for i, url := range urls {
		want := "role:master"
		if i >= primaries {
			want = "role:slave"
		}
		if replication := ask(t, connect(t, url), "INFO",
			"replication"); !strings.Contains(replication, want) {
			t.Errorf("node %d: want %s in\n%s", i, want, replication)
		}
	}

	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{strings.TrimPrefix(urls[0], "valkey://")}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 100 {
		ask(t, client, "SET", "key"+strconv.Itoa(i), "value")
	}
	keys := 0
	for _, url := range urls[:primaries] {
		node := connect(t, url)
		size, err := node.Do(t.Context(), node.B().Dbsize().Build()).AsInt64()
		if err != nil || size == 0 {
			t.Errorf("%s holds %d keys, %v", url, size, err)
		}
		keys += int(size)
		wait := node.B().Wait().Numreplicas(replicas).Timeout(5000).Build()
		if acknowledged, err := node.Do(t.Context(), wait).AsInt64(); err != nil || acknowledged < replicas {
			t.Errorf("%s: %d replicas, %v", url, acknowledged, err)
		}
	}
	if keys != 100 {
		t.Errorf("the primaries hold %d keys, want 100", keys)
	}
}

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// The shared cluster has no data, scripts, users or log entries of the test before.
func TestSharedCluster(t *testing.T) {
	var before string
	for range 2 {
		t.Run("", func(t *testing.T) {
			url := SharedCluster(t)
			if before != "" && url != before {
				t.Errorf("%s is another cluster than %s", url, before)
			}
			before = url
			for node := range root(t, url).Nodes() {
				for command, want := range map[string]string{"DBSIZE": "0", "ACL USERS": "[default]",
					"SCRIPT EXISTS " + sumOfOne: "[0]"} {
					if got := Ask(t, node, strings.Fields(command)...); got != want {
						t.Errorf("%s on %s: %s, want %s", command, node, got, want)
					}
				}
				Ask(t, node, "SCRIPT", "LOAD", "return 1")
			}
			if refused := Refused(t, url); len(refused) != 0 {
				t.Errorf("ACL LOG has %q from an earlier test", refused)
			}
			ask(t, root(t, url), "SET", "k", "v")
			As(t, url, "somebody", nil)
			for _, node := range root(t, url).Nodes() { // makes entries in ACL LOG
				_ = node.Do(t.Context(), node.B().Arbitrary("AUTH", "somebody", "wrong").Build()).Error()
			}
			if refused := Refused(t, url); len(refused) == 0 {
				t.Error("ACL LOG has no refused log-in")
			}
		})
	}
}

// sumOfOne is the SHA-1 of "return 1".
const sumOfOne = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

func TestStartClusterOfOne(t *testing.T) {
	client := connect(t, StartCluster(t, 1, 0)[0])
	if info := ask(t, client, "CLUSTER", "INFO"); !strings.Contains(info, "cluster_state:ok") ||
		!strings.Contains(info, "cluster_size:1") {
		t.Errorf("got\n%s", info)
	}
}
