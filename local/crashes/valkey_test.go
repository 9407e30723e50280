//go:build linux

package crashes

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// Clients call while Valkey, or one shard of a cluster, loses everything. Until the next
// minute, known callers get the answers of their plans, none is refused as unknown, and
// keys that are revoked or unknown never pass. The minute brings all back.
func TestLostValkey(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (url, lost string){
		"server": func(t *testing.T) (string, string) {
			url := valkeytest.Start(t)
			return url, url
		},
		"shard": func(t *testing.T) (string, string) {
			nodes := valkeytest.StartCluster(t, 3, 0)
			return nodes[0] + "?cluster=true", nodes[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, lost := start(t)
			w := newWorld(t, url, 1)
			callers := w.callers(12)
			check := w.startChecks(callers)
			w.ready(w.envs[0])
			end := check.underLoad(callers, w.refusedSecrets())
			valkeytest.Ask(t, lost, "FLUSHALL")
			if !check.anyDegraded(callers) {
				t.Fatal("no caller has a key where everything is lost")
			}
			w.nextMinute()
			waiting.Until(t, "every call is decided by Valkey", func() bool { return !check.anyDegraded(callers) })
			end()
			for _, c := range callers {
				if k, err := w.keys.Get(t.Context(), c.ID); err != nil || k.Name != c.Name {
					t.Errorf("%s: %+v, %v", c.Name, k, err)
				}
			}
		})
	}
}

// While a shard is away, edits that read it save nothing and say so, and others go on.
func TestShardAway(t *testing.T) {
	proxies := valkeytest.StartProxiedCluster(t, 3)
	w := newWorld(t, proxies[0].URL()+"?cluster=true", 1)
	callers, e := w.callers(12), w.envs[0]
	w.ready(e)
	away := slices.IndexFunc(proxies, func(p *valkeytest.Proxy) bool { // not the shard of the machine token
		p.SetFault(valkeytest.Fault{Refuse: true})
		if w.send(e, http.MethodGet, "/me", nil, 0).good() {
			return true
		}
		p.SetFault(valkeytest.Fault{})
		return false
	})
	if away < 0 {
		t.Fatal("every shard has something of the machine token")
	}
	saved := map[string]bool{}
	for _, c := range callers {
		a := w.rename(c)
		if saved[c.ID] = a.good(); !a.good() {
			w.wants(a, http.StatusServiceUnavailable, "unavailable")
		}
	}
	proxies[away].SetFault(valkeytest.Fault{})
	waiting.Until(t, "the shard is back", func() bool { return w.keys.Usable(t.Context()) == nil })
	w.nextMinute()
	here := 0
	for _, c := range callers {
		k, err := w.keys.Get(t.Context(), c.ID)
		if err != nil || (k.Name == "renamed") != saved[c.ID] {
			t.Errorf("%s: got %+v, %v; saved %v", c.Name, k, err, saved[c.ID])
		}
		if saved[c.ID] {
			here++
		}
	}
	if here == 0 || here == len(callers) {
		t.Errorf("%d of %d edits were saved, want some", here, len(callers))
	}
}

// A primary of a cluster dies, and a replica without the newest changes is elected in its
// place. The answers said so, and the minute brings the changes.
func TestFailover(t *testing.T) {
	const primaries, keys = 3, 24
	nodes := valkeytest.StartCluster(t, primaries, 1)
	hosts := make([]string, len(nodes))
	for i, node := range nodes {
		hosts[i] = strings.TrimPrefix(node, "valkey://")
	}
	w := newWorld(t, "valkey://"+strings.Join(hosts, ",")+"?cluster=true", 1)
	c := w.newClient(w.envs[0], rand.New(rand.NewPCG(1, 0)))
	w.ready(c.env)
	for range keys {
		c.create()
	}
	victim := nodes[0]
	replica := replicaOf(t, victim, nodes[primaries:])
	waiting.Until(t, "the replica is in sync", func() bool { return offset(t, victim) == offset(t, replica) })
	// The replica can be elected after any pause.
	valkeytest.Ask(t, replica, "CONFIG", "SET", "cluster-replica-validity-factor", "0")
	stopped := processOf(t, replica)
	signal(t, stopped, syscall.SIGSTOP)
	edit := func(i int, s *subject) (note string) {
		now, version := c.read(s)
		edits := now.edits(s.id, i)
		a := c.apply(s, version, edits[i%len(edits)])
		if !a.good() {
			t.Fatal(a)
		}
		return a.note
	}
	const delayed = "Saved. A failover in the next minute may delay it."
	lost := 0
	for _, s := range c.subjects[1:] {
		if has(t, victim, keyspace.BucketOf(s.id).Records()) {
			lost++
			if note := edit(0, s); note != delayed {
				t.Errorf("got %q, want %q", note, delayed)
			}
		}
	}
	valkeytest.Ask(t, victim, "CLIENT", "KILL", "TYPE", "REPLICA")
	for i, s := range c.subjects[1:] {
		edit(i, s)
	}
	signal(t, processOf(t, victim), syscall.SIGKILL)
	signal(t, stopped, syscall.SIGCONT)
	waiting.Until(t, "the replica is elected", func() bool {
		return infoField(t, replica, "replication", "role") == "master"
	})
	waiting.Until(t, "the cluster answers", func() bool { return w.keys.Usable(t.Context()) == nil })
	w.nextMinute()
	c.check()
	t.Logf("the failover may have lost %d of %d acknowledged changes, and all are in force", lost, c.acknowledged)
}

// has reports whether a node of a cluster has the slot of a name.
func has(t *testing.T, node, name string) bool {
	t.Helper()
	slot := valkeytest.Ask(t, node, "CLUSTER", "KEYSLOT", name)
	return valkeytest.Ask(t, node, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0"
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

// processOf returns the process id of a server.
func processOf(t *testing.T, url string) (pid int) {
	t.Helper()
	pid, err := strconv.Atoi(infoField(t, url, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// infoField returns one field of a server's INFO, or "" if it is missing.
func infoField(t *testing.T, url, section, field string) string {
	t.Helper()
	for line := range strings.Lines(valkeytest.Ask(t, url, "INFO", section)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			return text
		}
	}
	return ""
}
