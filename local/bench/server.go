// Package bench is what the benchmarks share: Valkey servers with plans and API keys, what
// a server says of its work, built functions behind the emulator of Lambda, and figures.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
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
	Data   string          // folder of the log of changes
	Nodes  []valkey.Client // one for each shard, for its statistics
	Client valkey.Client
	By     registry.Edit // author and reason of edits
	closes []func()
}

// Start starts a cluster with a number of shards, or a server without cluster mode for 0.
func Start(ctx context.Context, shards int) (*Server, error) {
	s := &Server{By: registry.Edit{By: registry.Actor{Kind: "system", Name: "bench"}, Reason: "bench"}}
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
	if s.Data, err = os.MkdirTemp("", "tidegate-bench-"); err != nil {
		return err
	}
	s.OnClose(func() { _ = os.RemoveAll(s.Data) })
	log, err := objects.Open(s.Data)
	if err != nil {
		return err
	}
	s.Store = registry.New(s.Client, log, apikey.Pepper(Pepper))
	return s.Start(ctx)
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

// Calls creates n keys of a plan, and returns a call with each.
func (s *Server) Calls(ctx context.Context, plan string, n int) ([]enforce.Call, error) {
	set, err := s.Set(ctx)
	if err != nil {
		return nil, err
	}
	p, _ := set.Plan(plan)
	keys := make([]policy.Key, n)
	for i := range keys {
		keys[i] = policy.Key{Name: fmt.Sprintf("%s %d", plan, i+1), Env: "test", PlanNumber: p.Number}
	}
	return s.CreateKeys(ctx, keys)
}

// CreateKeys creates active keys, changes.MaxItems of them in each change of the log, and
// returns a call with each. The keys get an id.
func (s *Server) CreateKeys(ctx context.Context, keys []policy.Key) ([]enforce.Call, error) {
	var calls []enforce.Call
	now := time.Now().UTC().Truncate(time.Second)
	for part := range slices.Chunk(keys, changes.MaxItems) {
		var items []changes.Item
		var ids []string
		for i := range part {
			k := &part[i]
			secret, err := apikey.Generate(k.Env)
			if err != nil {
				return nil, err
			}
			k.ID, k.Kind, k.Created, k.Updated = secret.ID(), policy.APIKey, now, now
			k.Status = cmp.Or(k.Status, policy.Active)
			record, err := policyset.EncodeRecord(*k, policyset.Secrets{Current: apikey.Pepper(Pepper).Hash(secret)})
			if err != nil {
				return nil, err
			}
			ids = append(ids, k.ID)
			items = append(items, changes.Item{Record: k.ID, After: record})
			calls = append(calls, enforce.Call{Kind: policy.APIKey, Subject: k.ID, Secret: secret})
		}
		edit := changes.Edit{Action: registry.KeyCreate, By: s.By.By.Kind + ":" + s.By.By.Name, Why: s.By.Reason}
		receipt, err := s.Log().Edit(ctx, edit, func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			_, err := r.Get(ctx, ids...)
			return items, err
		})
		if err != nil || !receipt.InForce {
			return nil, fmt.Errorf("create keys: %+v, %w", receipt, err)
		}
	}
	return calls, nil
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
