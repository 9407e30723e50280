//go:build unix

package faults

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/testing/storetest"
)

// flood makes one call from each of 500,000 addresses. Valkey's memory is too small for
// their counts. A victim, a registered caller, makes a call after every hundred of these.
type flood struct {
	policy string // maxmemory-policy
	rate   int    // calls a second; 0 for as fast as possible
}

const (
	floodAddresses = 500_000
	floodLimit     = 1_000
)

// flooded has the results of a flood.
type flooded struct {
	calls, admitted, failed atomic.Int64 // calls and admitted of the victim; failed of all callers
	evicted                 int
	took                    time.Duration
}

func (f flood) run(t *testing.T) *flooded {
	t.Helper()
	w := single(t, "--maxmemory", "12mb", "--maxmemory-policy", f.policy)
	w.plans(t, fmt.Sprint(floodLimit, " per hour"))
	w.save(t, func(s *policy.Set) { s.AddressPlan = "closed" })
	victim, idle := w.key(t, "closed"), w.callers(t, 20, "closed")
	checker := enforce.NewChecker(storetest.Connect(t, w.url), apikey.Pepper(pepper))
	result := &flooded{}
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range 64 {
		group.Go(func() {
			for n := next.Add(1); n <= floodAddresses; n = next.Add(1) {
				if f.rate > 0 && n%100 == 0 {
					during(t, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(f.rate))))
				}
				result.call(t, checker, n, victim)
			}
		})
	}
	group.Wait()
	result.took = time.Since(began)
	info := w.servers[0].ask(t, "INFO")
	result.evicted = integer(t, info, "evicted_keys")
	requireConfiguration(t, w, append(idle, victim))
	return result
}

// call makes call n of the flood, and the victim's call if it is due.
func (r *flooded) call(t *testing.T, checker *enforce.Checker, n int64, victim caller) {
	if _, err := checker.Check(t.Context(),
		enforce.Call{Kind: policy.Address, Subject: fmt.Sprintf("address-%d", n)}); err != nil {
		r.failed.Add(1)
	}
	if n%100 != 0 {
		return
	}
	checked, err := checker.Check(t.Context(),
		enforce.Call{Kind: policy.APIKey, Subject: victim.key.ID, Secret: victim.secret})
	r.calls.Add(1)
	switch {
	case err != nil:
		r.failed.Add(1)
	case checked.Allowed:
		r.admitted.Add(1)
	}
}

// A flood of new callers does not evict the victim's counts, nor the configuration. LRU
// evicts keys by the whole seconds since their last use, LFU by the number of their uses.
// LRU keeps the victim's counts only if memory can store a few seconds of the flood. LFU
// always keeps them.
func TestKeyFlood(t *testing.T) {
	skipUnlessFaults(t)
	for _, f := range []flood{{"volatile-lru", 15_000}, {"volatile-lru", 0}, {"volatile-lfu", 0}} {
		r := f.run(t)
		over := r.admitted.Load() > floodLimit
		if over && f.hopeless() {
			gap(t, f.name(), floodPromise, r.String())
			continue
		}
		if over || r.failed.Load() > 0 || r.evicted == 0 {
			t.Errorf("%s: got %d calls of the victim admitted, %d calls failed, %d keys evicted; want at "+
				"most %d, none and some", f.policy, r.admitted.Load(), r.failed.Load(), r.evicted, floodLimit)
		}
		report(t, f.name(), floodPromise, r.String())
	}
}

const floodPromise = "victim ≤ 1.0×, configuration survives"

func (f flood) name() string {
	if f.rate == 0 {
		return "key flood, 12 MB, 500k ids, " + f.policy + ", at full speed"
	}
	return "key flood, 12 MB, 500k ids, " + f.policy + ", slower"
}

// hopeless reports whether eviction cannot keep the victim's counts. Memory can store
// about a second of the flood, and LRU cannot order keys that were used within the same
// second.
func (f flood) hopeless() bool { return f.policy == "volatile-lru" && f.rate == 0 }

func (r *flooded) String() string {
	return fmt.Sprintf("%s ids/s: %s of 500,000 evicted; victim admitted %d of %d in %s calls (%.1f×); "+
		"all keys and the set survive; %d errors",
		thousands(int(floodAddresses/r.took.Seconds())), thousands(r.evicted), r.admitted.Load(), floodLimit,
		thousands(int(r.calls.Load())),
		float64(r.admitted.Load())/floodLimit, r.failed.Load())
}

// requireConfiguration fails the test unless Valkey still has the policy set and every key.
func requireConfiguration(t *testing.T, w *world, keys []caller) {
	t.Helper()
	for _, c := range keys {
		if _, err := w.keys.Get(t.Context(), c.key.ID); err != nil {
			t.Errorf("key %s: got %v, want its record", c.key.ID, err)
		}
	}
	set, err := w.keys.Set(t.Context())
	if err != nil || len(set.Plans) != 3 {
		t.Errorf("policy set: got %+v, %v, want 3 plans", set, err)
	}
	if err := w.keys.Usable(t.Context()); err != nil {
		t.Error(err)
	}
}

// For a denied key that calls as fast as possible, each environment asks Valkey only a
// few times a second.
func TestDeniedFlood(t *testing.T) {
	skipUnlessFaults(t)
	const duration = 4 * time.Second
	w := single(t)
	w.plans(t, "10 per hour")
	c := w.key(t, "closed")
	f := startFleet(t, w.url, fleetOptions{environments: 4, timeout: calm})
	for range 40 {
		f.call(t.Context(), c.secret.Reveal())
	}
	before := w.servers[0].calls(t, "evalsha", "eval")
	l := &load{fleet: f, callers: []caller{c}, rate: 1_000_000, workers: 4}
	l.begin(t)
	during(t, duration)
	outcomes := l.end()
	scripts := w.servers[0].calls(t, "evalsha", "eval") - before
	all := tallyOf(outcomes)
	all.requireUndegraded(t)
	// Each of 4 environments asks ten times at first and then ten times a second, and
	// sends usage records. The factor 2 allows for a stall, after which an environment
	// asks ten times again.
	if most := 2 * 4 * (10 + 10*int(duration.Seconds()) + 5); scripts > most || all.calls < 10*scripts {
		t.Errorf("%d calls: got %d scripts, want at most %d and at most a tenth of the calls", all.calls,
			scripts, most)
	}
	const promise = "an environment asks 10 times at first and after a pause, then 10 times a second, and " +
		"sends its records of usage"
	report(t, "denied flood of one key", promise, fmt.Sprintf(
		"%s calls at %d/s: %d scripts, %.1f a second and environment, %.1f%% of the calls",
		thousands(all.calls), rateOf(outcomes),
		scripts, float64(scripts)/duration.Seconds()/4, 100*float64(scripts)/float64(all.calls)))
}

// While made-up keys arrive as fast as eight environments can refuse them, from the network
// of the customers, every customer's call is allowed, most of them the first one of a key.
// A made-up key costs one script, which finds no record and counts nothing.
func TestMadeUpKeyFlood(t *testing.T) {
	skipUnlessFaults(t)
	const duration, environments = 6 * time.Second, 8
	w := single(t)
	w.plans(t, "10 per hour")
	customers := w.callers(t, 120, "closed")
	forged := make([]caller, 40_000)
	for i := range forged {
		var err error
		if forged[i].secret, err = apikey.Generate("test"); err != nil {
			t.Fatal(err)
		}
	}
	f := startFleet(t, w.url, fleetOptions{environments: environments, timeout: calm})
	scripts := w.servers[0].calls(t, "evalsha", "eval")
	attack := &load{fleet: f, callers: forged, rate: 1_000_000, workers: environments - 1}
	good := &load{fleet: f, callers: customers, rate: 30, workers: 1}
	attack.begin(t)
	good.begin(t)
	during(t, duration)
	allowed, refused := tallyOf(good.end()), attack.end()
	allowed.requireUndegraded(t)
	for _, o := range refused {
		if o.status != 401 {
			t.Fatalf("a made-up key: got %+v, want 401", o)
		}
	}
	scripts = w.servers[0].calls(t, "evalsha", "eval") - scripts
	// A customer's first call takes two. Usage records are scripts too: an environment sends
	// some each second.
	if most := 2*allowed.calls + len(refused) + environments*40*int(duration.Seconds()); scripts > most {
		t.Errorf("got %d scripts for %d customers' calls and %d made-up keys, want at most %d", scripts,
			allowed.calls, len(refused), most)
	}
	report(t, "flood of made-up keys, customers' network", "no customer refused", fmt.Sprintf(
		"%d/s, %d of %s customers' calls refused or 5xx, p99 %s; %.3g µs of Valkey a script",
		rateOf(refused), allowed.failed+allowed.unauthorized, thousands(allowed.calls), ms(allowed.p99),
		w.servers[0].microseconds(t, "evalsha")))
	t.Logf("%d scripts for %d made-up keys", scripts, len(refused))
}
