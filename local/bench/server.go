// Package bench is what the benchmarks share: Valkey servers with plans and API keys, what
// a server says of its work, built functions behind the emulator of Lambda, and figures.
package bench

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
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	local "tidegate/local/valkey"
)

// Pepper is the pepper of every key that a benchmark creates.
const Pepper = "a pepper that only this benchmark uses"

// Patience is the time-out of everything that asks Valkey, so that a busy machine makes
// answers slow, and not invalid.
const Patience = 10 * time.Second

// Options are the client's options, like those of a function. Pooled clients have a
// connection for each call in flight.
func Options(pooled bool) store.Options {
	return store.Options{Dial: Patience, Write: Patience, Pooled: pooled}
}

// Server is a valkey-server, or a cluster of them, with the registry that writes to it.
type Server struct {
	*registry.Store
	URL    string
	Nodes  []valkey.Client // one for each shard, for its statistics
	Client valkey.Client
	By     registry.Edit // author and reason of edits
	closes []func()
}

// Start starts a cluster with a number of shards, or a server without cluster mode for 0.
func Start(ctx context.Context, shards int) (*Server, error) {
	s := &Server{By: registry.Edit{By: audit.Actor{Kind: "system", Name: "bench"}, Reason: "bench"}}
	err := s.start(ctx, shards)
	if err != nil {
		s.Close()
	}
	return s, err
}

func (s *Server) start(ctx context.Context, shards int) error {
	var nodes []*local.Server
	if shards == 0 {
		server, err := local.Installed(ctx)
		if err != nil {
			return err
		}
		s.OnClose(server.Close)
		s.URL, nodes = server.URL, []*local.Server{server}
	} else {
		cluster, err := local.InstalledCluster(ctx, shards)
		if err != nil {
			return err
		}
		s.OnClose(cluster.Close)
		s.URL, nodes = cluster.URL, cluster.Nodes
	}
	for _, n := range nodes {
		node, err := Dial(n.Address())
		if err != nil {
			return err
		}
		s.OnClose(node.Close)
		s.Nodes = append(s.Nodes, node)
	}
	var err error
	if s.Client, err = store.Open(ctx, s.URL, Options(true)); err != nil {
		return err
	}
	s.OnClose(s.Client.Close)
	s.Store = registry.NewStore(s.Client, apikey.Pepper(Pepper))
	return nil
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
func (s *Server) Plan(ctx context.Context, name string, list ...limits.Limit) error {
	return s.Edit(ctx, func(set *policy.Set) {
		set.Plans = append(set.Plans, policy.Plan{Name: name, Limits: list})
	})
}

// creators is the number of keys that Keys creates at a time.
const creators = 64

// Calls creates n keys of a plan, and returns a call with each.
func (s *Server) Calls(ctx context.Context, plan string, n int) ([]enforce.Call, error) {
	calls := make([]enforce.Call, n)
	return calls, Concurrently(creators, Times(n), func(_, i int) error {
		key, secret, err := s.Create(ctx,
			policy.NewKey{Name: fmt.Sprintf("%s %d", plan, i+1), Env: "test", Plan: plan}, s.By)
		if err != nil {
			return fmt.Errorf("create a key: %w", err)
		}
		calls[i] = enforce.Call{Kind: policy.APIKey, Subject: key.ID, Secret: secret}
		return nil
	})
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
