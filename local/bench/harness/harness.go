// Package harness starts the Valkey servers of benchmarks, creates plans and API keys in
// them as the dashboard does, runs built functions behind the emulator of Lambda, and
// makes many calls at once. It does not know figures.
package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	local "tidegate/local/valkey"
)

// Pepper is the pepper of every key that a benchmark creates.
const Pepper = "a pepper that only this benchmark uses"

// Server is a valkey-server, or a cluster of them, with the registry that writes to it.
type Server struct {
	*registry.Store
	URL    string
	Name   string          // program and version; "" for a cluster
	Nodes  []*local.Server // one for each shard
	Client valkey.Client
	By     registry.Edit // author and reason of the edits in the audit log: the benchmark
	closes []func()
}

// Start starts a valkey-server. The audit log gets the benchmark's name.
func Start(ctx context.Context, benchmark string, o store.Options) (*Server, error) {
	server, err := local.Installed(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: server.URL, Name: server.Name, Nodes: []*local.Server{server},
		closes: []func(){server.Close}}
	return s.connect(ctx, benchmark, o)
}

// StartCluster starts a cluster with a number of shards.
func StartCluster(ctx context.Context, benchmark string, shards int, o store.Options) (*Server, error) {
	cluster, err := local.InstalledCluster(ctx, shards)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: cluster.URL, Nodes: cluster.Nodes, closes: []func(){cluster.Close}}
	return s.connect(ctx, benchmark, o)
}

func (s *Server) connect(ctx context.Context, benchmark string, o store.Options) (*Server, error) {
	var err error
	if s.Client, err = store.Open(ctx, s.URL, o); err != nil {
		s.Close()
		return nil, err
	}
	s.OnClose(s.Client.Close)
	s.Store = registry.NewStore(s.Client, apikey.Pepper(Pepper))
	s.By = registry.Edit{By: audit.Actor{Kind: "system", Name: benchmark}, Reason: benchmark}
	return s, nil
}

// OnClose makes Close call do. Close calls the functions in reverse order.
func (s *Server) OnClose(do func()) { s.closes = append(s.closes, do) }

// Close closes the connections and stops the servers.
func (s *Server) Close() {
	for _, do := range slices.Backward(s.closes) {
		do()
	}
}

// Edit applies change to the policies and saves them.
func (s *Server) Edit(ctx context.Context, change func(*policy.Set)) error {
	set, err := s.Set(ctx)
	if err != nil {
		return err
	}
	change(set)
	if _, err := s.SaveSet(ctx, *set, s.By); err != nil {
		return fmt.Errorf("save the policies: %w", err)
	}
	return nil
}

// Plan adds a plan.
func (s *Server) Plan(ctx context.Context, name string, limits ...limiter.Limit) error {
	return s.Edit(ctx, func(set *policy.Set) {
		set.Plans = append(set.Plans, policy.Plan{Name: name, Limits: limits})
	})
}

// Key is an API key of a server.
type Key struct {
	ID     string
	Secret apikey.Secret
}

// creators is the number of keys that Keys creates at a time.
const creators = 64

// Keys creates n keys of a plan, named "PLAN 1" to "PLAN n".
func (s *Server) Keys(ctx context.Context, plan, environment string, n int) ([]Key, error) {
	keys := make([]Key, n)
	err := Concurrently(creators, Times(n), func(_, i int) error {
		name := fmt.Sprintf("%s %d", plan, i+1)
		key, secret, err := s.Create(ctx, policy.NewKey{Name: name, Env: environment, Plan: plan}, s.By)
		keys[i] = Key{key.ID, secret}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create keys: %w", err)
	}
	return keys, nil
}

// Concurrently calls do(worker, i) for i = 0, 1, … in a goroutine for each worker, as
// long as more(i) returns true and no call fails. It returns the errors of all workers.
func Concurrently(workers int, more func(i int) bool, do func(worker, i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1) - 1)
				if !more(i) {
					return
				}
				if errs[w] = do(w, i); errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Times returns the argument more of Concurrently for n calls.
func Times(n int) func(int) bool { return func(i int) bool { return i < n } }

// For returns the argument more of Concurrently for calls until a time has passed.
func For(lasts time.Duration) func(int) bool {
	end := time.Now().Add(lasts)
	return func(int) bool { return time.Now().Before(end) }
}
