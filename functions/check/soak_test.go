package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"tidegate/functions/check/authorizer"
	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// The load of the soak test. There are few environments, so that the test process keeps
// up.
const (
	soakEnvironments = 4
	soakRate         = 500 // calls per second and environment
	soakKeys         = 200
	soakLimit        = 20
	soakWindow       = 2 * time.Second
	soakFailover     = 20 * time.Second
	warmUp           = 30 * time.Second
)

// TestSoak makes calls for as long as SOAK says, amid edits, rotations, resets and
// failovers of a cluster, and compares goroutines, memory and connections at the end with
// those after a warm-up. ./scripts/test -soak DURATION runs it.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Skip("the soak takes minutes: ./scripts/test -soak DURATION runs it")
	}
	urls := valkeytest.StartCluster(t, 3, 1)
	unaffected := goleak.IgnoreCurrent()
	s := newSoak(t, urls)
	s.start(t)
	s.fill(t)
	s.run(t, warmUp, warmUp/10)
	before := s.measure(t)
	s.run(t, length, soakFailover)
	after := s.measure(t)
	s.close(t)
	waiting.Until(t, "the goroutines end", func() bool { return goleak.Find(unaffected) == nil })

	if s.failed.Load() > 0 || s.over.Load() > 0 {
		t.Errorf("%d calls failed, %d above their limit in a window", s.failed.Load(), s.over.Load())
	}
	if after.goroutines > before.goroutines+10 || after.heap > before.heap*5/4+4<<20 ||
		after.connections > before.connections+soakEnvironments {
		t.Errorf("resources grew from %s to %s", before, after)
	}
	t.Logf("soak of %s: %d calls at %d/s, %d 5xx, %d degraded, %d over a limit; %d edits, rotations and "+
		"resets, %d failovers; "+
		"%s at first, %s at the end",
		length, s.calls.Load(), int(float64(s.calls.Load())/(length+warmUp).Seconds()), s.failed.Load(),
		s.degraded.Load(), s.over.Load(),
		s.edits.Load(), s.failovers.Load(), before, after)
}

type soak struct {
	nodes  []valkey.Client
	admin  valkey.Client
	store  *registry.Store
	url    string
	pepper apikey.Pepper
	fleet  []*authorizer.Authorizer
	made   []*checker
	keys   []*soakKey

	calls, failed, degraded, over, edits, failovers atomic.Int64
}

// soakKey is a key that one environment's calls use.
type soakKey struct {
	id       string
	steady   bool // its limits are not edited
	secret   atomic.Pointer[apikey.Secret]
	admitted [soakLimit]time.Time // start times of the latest calls that Valkey allowed
	next     int
}

// resources are those that must not grow with the number of calls.
type resources struct {
	goroutines, connections int
	heap                    uint64
}

func (g resources) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MB heap, %d connections", g.goroutines, float64(g.heap)/1e6,
		g.connections)
}

func newSoak(t *testing.T, urls []string) *soak {
	t.Helper()
	s := &soak{pepper: apikey.Pepper(strings.Repeat("pepper!!", 4))}
	for _, url := range urls {
		s.nodes = append(s.nodes, storetest.Connect(t, url))
	}
	s.url = urls[0] + "," + strings.TrimPrefix(urls[1], "valkey://") + "?cluster=true"
	s.admin = storetest.Connect(t, s.url)
	s.store = registry.NewStore(s.admin, s.pepper)
	registrytest.Save(t, s.store, tester, func(set *policy.Set) {
		limits := []limiter.Limit{{Requests: soakLimit, Window: soakWindow}}
		set.Plans = []policy.Plan{
			{Name: "steady", Limits: limits},
			{Name: "edited", Limits: limits, Degraded: policy.Local, Share: 20},
		}
		set.AddressPlan = "edited"
	})
	for i := range soakKeys {
		k, secret := registrytest.Create(t, s.store, tester,
			policy.NewKey{Name: "soak", Env: "test", Plan: []string{"steady", "edited"}[i%2]})
		key := &soakKey{id: k.ID, steady: i%2 == 0}
		key.secret.Store(&secret)
		s.keys = append(s.keys, key)
	}
	return s
}

func (s *soak) start(t *testing.T) {
	t.Helper()
	for range soakEnvironments {
		c := settings{
			ValkeyURL: s.url, ValkeyTimeout: 2 * time.Second, ValkeyConnectTimeout: 5 * time.Second,
			CallerCache: 10 * time.Minute, DenyCache: 100 * time.Millisecond, pepper: s.pepper,
		}
		made := newChecker(c, slog.New(slog.DiscardHandler), discardedMetrics(t), time.Now)
		resolver, err := identity.New(identity.Config{Sources: []identity.Kind{identity.Key, identity.IP},
			IPv4Bits: 32, IPv6Bits: 64, Pepper: s.pepper})
		if err != nil {
			t.Fatal(err)
		}
		s.made = append(s.made, made)
		answers := authorizer.Answers{Format: authorizer.Simple, Denial: authorizer.Deny}
		s.fleet = append(s.fleet, authorizer.New(made, resolver, answers, slog.New(slog.DiscardHandler)))
	}
}

func (s *soak) close(t *testing.T) {
	t.Helper()
	for _, c := range s.made {
		c.Close()
		if err := c.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.client.Close()
	}
	for _, client := range append(s.nodes, s.admin) {
		client.Close()
	}
}

// fill makes calls of 12,000 addresses in every environment, to fill its caches.
func (s *soak) fill(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for i, a := range s.fleet {
		group.Go(func() {
			for n := range 12_000 {
				s.invoke(t, a, "", fmt.Sprintf("11.%d.%d.%d", i, n>>8, n&255))
			}
		})
	}
	group.Wait()
}

// run makes calls, edits and failovers for d, a failover every failovers.
func (s *soak) run(t *testing.T, d, failovers time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	for i, a := range s.fleet {
		group.Go(func() { s.call(ctx, t, a, i) })
	}
	group.Go(func() { every(ctx, 50*time.Millisecond, func() { s.edit(t) }) })
	group.Go(func() { every(ctx, failovers, func() { s.failover(t) }) })
	group.Wait()
}

func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// call makes the calls of one environment: every fourth by a new address, the others with
// the environment's own keys.
func (s *soak) call(ctx context.Context, t *testing.T, a *authorizer.Authorizer, environment int) {
	every(ctx, time.Second/soakRate, func() {
		n := int(s.calls.Add(1))
		if n%4 == 0 {
			s.invoke(t, a, "", fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255))
			return
		}
		k := s.keys[environment+soakEnvironments*rand.IntN(soakKeys/soakEnvironments)]
		began := time.Now()
		if allowed, degraded := s.invoke(t, a, k.secret.Load().Reveal(), "192.0.2.1"); allowed && !degraded {
			s.admit(k, began)
		}
	})
}

// admit counts a violation if this call and the soakLimit-th allowed call before it lie
// within one window. Both were decided after the earlier one's start and before now.
func (s *soak) admit(k *soakKey, began time.Time) {
	if first := k.admitted[k.next]; !first.IsZero() && time.Since(first) < soakWindow && k.steady {
		s.over.Add(1)
	}
	k.admitted[k.next] = began
	k.next = (k.next + 1) % soakLimit
}

func (s *soak) invoke(t *testing.T, a *authorizer.Authorizer, credential, address string) (allowed,
	degraded bool) {
	headers := map[string]string{}
	if credential != "" {
		headers["x-api-key"] = credential
	}
	event, _ := json.Marshal(map[string]any{
		"version": "2.0", "type": "REQUEST",
		"routeArn": "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET/orders",
		"headers":  headers,
		"requestContext": map[string]any{"stage": "prod",
			"http": map[string]any{"method": "GET", "path": "/orders", "sourceIp": address}},
	})
	response, err := a.Invoke(t.Context(), event)
	var answer struct {
		IsAuthorized bool
		Context      struct {
			Degraded bool
			KeyID    string
		}
	}
	if err != nil || json.Unmarshal(response, &answer) != nil || answer.Context.KeyID == "" &&
		!answer.Context.Degraded {
		if s.failed.Add(1) == 1 {
			t.Logf("first failure: %s, %v", response, err)
		}
	}
	if answer.Context.Degraded {
		s.degraded.Add(1)
	}
	return answer.IsAuthorized, answer.Context.Degraded
}

// edit rotates, overrides or resets a key of the edited plan, or saves the policy set.
func (s *soak) edit(t *testing.T) {
	k := s.keys[2*rand.IntN(soakKeys/2)+1]
	key, err := s.store.Get(t.Context(), k.id)
	if err != nil {
		t.Errorf("edit: %v", err)
		return
	}
	switch s.edits.Add(1) % 4 {
	case 0:
		var secret apikey.Secret
		if _, secret, err = s.store.Rotate(t.Context(), k.id, key.Version, time.Minute, tester); err == nil {
			k.secret.Store(&secret)
		}
	case 1:
		o := &policy.Override{Limits: []limiter.Limit{{Requests: 1 + rand.Int64N(50), Window: soakWindow}},
			Reason: "soak"}
		_, err = registrytest.Override(t.Context(), s.store, k.id, key.Version, o, tester)
	case 2:
		_, err = s.store.Reset(t.Context(), k.id, tester)
	default:
		err = s.saveSet(t)
	}
	if err != nil && !store.Unavailable(err) {
		t.Errorf("edit: %v", err)
	}
}

func (s *soak) saveSet(t *testing.T) error {
	set, err := s.store.Set(t.Context())
	if err != nil {
		return err
	}
	set.Plans[1].Limits = []limiter.Limit{{Requests: 1 + rand.Int64N(50), Window: soakWindow}}
	_, err = s.store.SaveSet(t.Context(), *set, tester)
	return err
}

// failover promotes one replica, as an operator does.
func (s *soak) failover(t *testing.T) {
	for _, n := range s.nodes {
		info, err := n.Do(t.Context(), n.B().Info().Section("replication").Build()).ToString()
		if err != nil {
			t.Errorf("failover: %v", err)
			return
		}
		if strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") {
			if err := n.Do(t.Context(), n.B().ClusterFailover().Build()).Error(); err == nil {
				s.failovers.Add(1)
			}
			return // one at a time
		}
	}
}

func (s *soak) measure(t *testing.T) resources {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g := resources{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	for _, n := range s.nodes {
		list, err := n.Do(t.Context(), n.B().Arbitrary("CLIENT", "LIST", "TYPE", "normal").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		g.connections += strings.Count(list, "id=")
	}
	return g
}
