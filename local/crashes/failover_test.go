//go:build linux

package crashes

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/policy"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// A primary of a cluster dies, and a replica without the newest changes is elected in its
// place. The function notices the loss at its next start and restores the changes.
func TestFailover(t *testing.T) {
	const primaries, keys = 3, 24
	nodes := valkeytest.StartCluster(t, primaries, 1)
	hosts := make([]string, len(nodes))
	for i, node := range nodes {
		hosts[i] = strings.TrimPrefix(node, "valkey://")
	}
	w := newWorld(t, "valkey://"+strings.Join(hosts, ",")+"?cluster=true", 1, "always")
	c := &client{world: w, env: w.envs[0], random: rand.New(rand.NewPCG(1, 0))}
	w.ready(c.env)
	for range keys {
		c.create()
	}
	victim := nodes[0]
	replica := replicaOf(t, victim, nodes[primaries:])
	waiting.Until(t, "the replica is in sync", func() bool { return offset(t, victim) == offset(t, replica) })
	// It can be elected after any pause.
	valkeytest.Ask(t, replica, "CONFIG", "SET", "cluster-replica-validity-factor", "0")
	stopped := processOf(t, replica)
	signal(t, stopped, syscall.SIGSTOP)
	valkeytest.Ask(t, victim, "CLIENT", "KILL", "TYPE", "REPLICA")
	for i, k := range c.keys {
		now := c.read(k)
		actions := now.actions(i)
		if a := c.apply(k, now, actions[i%len(actions)], false); !a.good() {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	signal(t, processOf(t, victim), syscall.SIGKILL)
	signal(t, stopped, syscall.SIGCONT)
	waiting.Until(t, "the replica is elected", func() bool {
		return infoField(t, replica, "replication", "role") == "master"
	})
	lost := 0
	for _, k := range c.keys {
		var stored policy.Key
		waiting.Until(t, "the cluster answers", func() (answered bool) {
			var err error
			stored, err = w.keys.Get(t.Context(), k.id)
			return err == nil
		})
		if !slices.ContainsFunc(k.may, func(s state) bool { return s.Version == stored.Version }) {
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("the replica has every change: nothing is to be restored")
	}
	c.env.kill()
	w.ready(c.env)
	waiting.Until(t, "everything is restored", func() bool { return w.journalStatus().Behind == 0 })
	c.check()
	w.checkAudit()
	t.Logf("the failover lost %d of %d acknowledged changes, and all were restored", lost, c.acked)
}

// replicaOf returns the node that replicates a primary.
func replicaOf(t *testing.T, primary string, nodes []string) string {
	t.Helper()
	port := primary[strings.LastIndex(primary, ":")+1:]
	i := slices.IndexFunc(nodes, func(node string) bool {
		return infoField(t, node, "replication", "master_port") == port
	})
	if i < 0 {
		t.Fatal("the primary has no replica")
	}
	return nodes[i]
}

// offset returns a node's position in the replication stream.
func offset(t *testing.T, node string) string {
	t.Helper()
	return infoField(t, node, "replication", "master_repl_offset")
}
