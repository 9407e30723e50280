//go:build unix

package faults

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/keyspace"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// 500,000 addresses call once each, far more than there is memory for, while a victim calls all the time.
func TestKeyFlood(t *testing.T) {
	fault(t)
	const addresses, limit = 500_000, 1_000
	w := single(t, "--maxmemory", "12mb", "--maxmemory-policy", "volatile-lru")
	w.plans(t, limiter.Limit{Requests: limit, Window: time.Hour})
	w.save(t, func(s *policy.Set) { s.AddressPlan = "closed" })
	victim, idle := w.key(t, "closed"), w.callers(t, 20, "closed")
	checker := policy.NewChecker(patient(t, w.url), apikey.Pepper(pepper))
	call := func(c caller) policy.Call {
		return policy.Call{Kind: policy.APIKey, Subject: c.key.ID, Secret: c.secret}
	}
	var next, admitted, calls, failed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for {
				n := next.Add(1)
				if n > addresses {
					return
				}
				network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
				if _, err := checker.Check(t.Context(), policy.Call{Kind: policy.Address, Subject: policy.AddressID(network)}, nil); err != nil {
					failed.Add(1)
				}
				if n%100 != 0 {
					continue
				}
				checked, err := checker.Check(t.Context(), call(victim), nil)
				switch calls.Add(1); {
				case err != nil:
					failed.Add(1)
				case checked.Allowed:
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	evicted := integer(t, w.servers[0].ask(t, "INFO", "stats"), "evicted_keys")
	if admitted.Load() > limit || failed.Load() > 0 || evicted == 0 {
		t.Errorf("the victim was let in %d times, limit %d; %d calls failed; %d keys evicted", admitted.Load(), limit, failed.Load(), evicted)
	}
	configured(t, w, append(idle, victim))
	report(t, "key flood, 12 MB, 500k ids", "victim ≤ 1.0×, configuration survives", fmt.Sprintf(
		"volatile-lru: %s of 500,000 evicted; victim admitted %d of %d in %d calls (%.1f×); all %d keys, the set and 256 copies survive; %d errors",
		thousands(evicted), admitted.Load(), limit, calls.Load(), float64(admitted.Load())/limit, len(idle)+1, failed.Load()))
}

// configured fails the test unless the set, its copies and every key are there.
func configured(t *testing.T, w *world, keys []caller) {
	t.Helper()
	for _, c := range keys {
		if _, err := w.keys.Get(t.Context(), c.key.ID); err != nil {
			t.Errorf("key %s: %v", c.key.ID, err)
		}
	}
	set, err := w.keys.Set(t.Context())
	if err != nil || len(set.Plans) != 3 {
		t.Errorf("set: %+v, %v", set, err)
	}
	copies := 0
	for _, bucket := range keyspace.All() {
		if w.servers[0].ask(t, "TYPE", bucket.Name("p")) == "string" {
			copies++
		}
	}
	if copies != 256 {
		t.Errorf("%d of 256 copies are left", copies)
	}
}

// A key over its limit calls as fast as it can.
func TestDeniedFlood(t *testing.T) {
	fault(t)
	const lasts = 4 * time.Second
	w := single(t)
	w.plans(t, limiter.Limit{Requests: 10, Window: time.Hour})
	c := w.key(t, "closed")
	f := startFleet(t, w.url, fleetOptions{environments: 4, timeout: calm})
	for range 40 {
		f.call(t.Context(), c.secret.Reveal())
	}
	before := w.servers[0].calls(t, "evalsha", "eval")
	l := &load{fleet: f, callers: []caller{c}, rate: 1_000_000, workers: 4}
	l.begin(t)
	during(t, lasts)
	outcomes := l.end()
	asked := w.servers[0].calls(t, "evalsha", "eval") - before
	all := tallyOf(outcomes)
	all.undisturbed(t)
	// Each environment asks ten times, ten times a second, and sends records of usage.
	if most := 4 * (10 + 10*int(lasts.Seconds()) + 5); asked > most || all.calls < 10*asked {
		t.Errorf("%d calls cost %d scripts, want at most %d", all.calls, asked, most)
	}
	report(t, "denied flood of one key", "costs Valkey next to nothing: ≤ 10/s an environment", fmt.Sprintf(
		"%s calls at %d/s: %d scripts, %.1f a second and environment, %.1f%% of the calls", thousands(all.calls), rateOf(outcomes),
		asked, float64(asked)/lasts.Seconds()/4, 100*float64(asked)/float64(all.calls)))
}
