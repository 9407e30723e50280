package changes

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

const (
	// replicaWait is how long an acknowledgement waits for a replica.
	replicaWait = 100 * time.Millisecond
	// waits is for how many slots it waits at the same time.
	waits = 8
)

// Valkey runs scripts and reads positions.
type Valkey interface {
	// Field reads a field of hashes, in one flush: a text for each, none without the field.
	Field(ctx context.Context, field string, hashes []string) []lua.Reply
	// Run runs a script several times, in one flush. After an error the run may have been
	// executed, or be executed later.
	Run(ctx context.Context, script *lua.Script, runs []lua.Run) []lua.Reply
	// Replicated waits until the replicas, if there are any, have what was written to the
	// slots of these names before.
	Replicated(ctx context.Context, names []string) error
}

// server is a Valkey, or a cluster of them.
type server struct {
	client   valkey.Client
	replicas atomic.Bool // there was a replica
}

// OnValkey returns the Valkey of a client.
func OnValkey(client valkey.Client) Valkey { return &server{client: client} }

// Run implements Valkey.
func (s *server) Run(ctx context.Context, script *lua.Script, runs []lua.Run) []lua.Reply {
	return script.DoMany(ctx, s.client, runs)
}

// Field implements Valkey.
func (s *server) Field(ctx context.Context, field string, hashes []string) []lua.Reply {
	commands := make(valkey.Commands, len(hashes))
	for i, hash := range hashes {
		commands[i] = s.client.B().Hget().Key(hash).Field(field).Build()
	}
	replies := make([]lua.Reply, len(hashes))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		text, err := result.ToString()
		if err == nil {
			replies[i].Values = []string{text}
		} else if !valkey.IsValkeyNil(err) {
			replies[i].Err = err
		}
	}
	return replies
}

// Replicated implements Valkey.
func (s *server) Replicated(ctx context.Context, names []string) error {
	return parallel(len(names), waits, func(i int) error {
		return s.client.Dedicated(func(c valkey.DedicatedClient) error {
			return s.replicated(ctx, c, names[i])
		})
	})
}

// replicated waits for a replica of the node that has a slot. WAIT counts the replicas that
// have what its own connection wrote, and replicas get all writes in order: so it writes
// beside the name. A replica that stops or goes away is one of which nobody knows: so once
// there was one, there must be one.
func (s *server) replicated(ctx context.Context, c valkey.DedicatedClient, name string) error {
	count := c.DoMulti(ctx, c.B().Exists().Key(name).Build(),
		c.B().Wait().Numreplicas(0).Timeout(0).Build())[1]
	replicas, err := count.AsInt64()
	if replicas > 0 {
		s.replicas.Store(true)
	}
	if err != nil || !s.replicas.Load() {
		if _, refused := valkey.IsValkeyErr(err); refused { // a serverless cache has no WAIT, and no loss
			return nil
		}
		return err
	}
	ms := replicaWait.Milliseconds()
	have, err := c.DoMulti(ctx,
		c.B().Set().Key(name+":wait").Value(strconv.FormatInt(ms, 10)).PxMilliseconds(ms).Build(),
		c.B().Wait().Numreplicas(1).Timeout(ms).Build())[1].AsInt64()
	if err == nil && have == 0 {
		err = fmt.Errorf("%w: no replica answered within %v", ErrView, replicaWait)
	}
	return err
}
