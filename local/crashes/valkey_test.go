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
			waiting.Until(t, "every call is decided by Valkey",
				func() bool { return !check.anyDegraded(callers) })
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
// place. Each answer of a change that it lacks said so, and the minute brings the change.
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
	replica := nodes[primaries+slices.IndexFunc(nodes[primaries:], func(node string) bool {
		return info(t, node, "master_port") == victim[strings.LastIndex(victim, ":")+1:]
	})]
	waiting.Until(t, "the replica is in sync", func() bool {
		return info(t, victim, "master_repl_offset") == info(t, replica, "master_repl_offset")
	})
	// The replica can be elected after any pause.
	valkeytest.Ask(t, replica, "CONFIG", "SET", "cluster-replica-validity-factor", "0")
	died, stopped := processOf(t, victim), processOf(t, replica)
	signal(t, stopped, syscall.SIGSTOP)
	valkeytest.Ask(t, victim, "CLIENT", "KILL", "TYPE", "REPLICA")
	for i, s := range c.subjects[1:] {
		now, version := c.read(s)
		edits := now.edits(s.id, i)
		a := c.apply(s, version, edits[i%len(edits)])
		delayed := a.note == "Saved. A failover in the next minute may delay it."
		if !a.good() || delayed != has(t, victim, keyspace.BucketOf(s.id).Records()) {
			t.Errorf("got %s", a)
		}
	}
	signal(t, died, syscall.SIGKILL)
	signal(t, stopped, syscall.SIGCONT)
	waiting.Until(t, "the replica is elected", func() bool { return info(t, replica, "role") == "master" })
	waiting.Until(t, "the cluster answers", func() bool { return w.keys.Usable(t.Context()) == nil })
	if s, err := w.keys.Log().Status(t.Context()); err != nil || s.Behind == 0 {
		t.Fatalf("got %+v, %v, want parts that the replica lacks", s, err)
	}
	w.nextMinute()
	c.check()
}

// has reports whether a node of a cluster has the slot of a name.
func has(t *testing.T, node, name string) bool {
	t.Helper()
	slot := valkeytest.Ask(t, node, "CLUSTER", "KEYSLOT", name)
	return valkeytest.Ask(t, node, "CLUSTER", "COUNTKEYSINSLOT", slot) != "0"
}

// processOf returns the process id of a server.
func processOf(t *testing.T, node string) int {
	t.Helper()
	pid, err := strconv.Atoi(info(t, node, "process_id"))
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

// info returns one field of a server's INFO, or "" if it is missing.
func info(t *testing.T, node, field string) string {
	t.Helper()
	for line := range strings.Lines(valkeytest.Ask(t, node, "INFO")) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			return text
		}
	}
	return ""
}
