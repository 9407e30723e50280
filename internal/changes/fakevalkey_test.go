package changes

import (
	"context"
	"math/rand/v2"
	"strings"

	"tidegate/internal/lua"
)

// shard is a node of Valkey that forgets, comes back old, goes away, and is late.
type shard struct {
	*data
	away   int  // steps
	awayAt int  // step at which it was last away
	lost   bool // since then it may lack what was acknowledged
	lostAt int
	late   []func()
	past   []*data
}

func (s *shard) lose(rnd *rand.Rand, now int) {
	switch x := rnd.Float64(); {
	case x < .25:
		s.data = newData()
	case x < .8:
		s.data = s.past[max(0, len(s.past)-1-rnd.IntN(4))].clone()
	default:
		s.data = s.past[rnd.IntN(len(s.past))].clone()
	}
	s.lost, s.lostAt = true, now
	s.remember()
}

func (s *shard) remember() {
	s.past = append(s.past, s.clone())
	s.past = s.past[max(0, len(s.past)-40):]
}

// Run implements Valkey. A flush reaches each shard at another time.
func (w *world) Run(ctx context.Context, script *lua.Script, runs []lua.Run) []lua.Reply {
	replies := make([]lua.Reply, len(runs))
	for i := range w.shards {
		first := true
		for j, r := range runs {
			if w.shardOf(r.Keys[0]) != i {
				continue
			}
			if first || w.rnd.IntN(8) == 0 {
				w.yield(ctx)
				first = false
			}
			replies[j] = w.runOn(w.shards[i], script, r)
		}
	}
	return replies
}

// Field implements Valkey.
func (w *world) Field(ctx context.Context, field string, hashes []string) []lua.Reply {
	replies := make([]lua.Reply, len(hashes))
	for i, s := range w.shards {
		w.yield(ctx)
		for j, hash := range hashes {
			if w.shardOf(hash) != i {
				continue
			}
			if s.away > 0 {
				replies[j].Err = errAway
			} else if text, found := s.hashes[hash][field]; found {
				replies[j].Values = []string{text}
			}
		}
	}
	return replies
}

func (w *world) runOn(s *shard, script *lua.Script, r lua.Run) lua.Reply {
	if s.away > 0 {
		return lua.Reply{Err: errAway}
	}
	writes, x := script != readScript, 1.0
	if writes && !w.quiet {
		x = w.rnd.Float64()
	}
	if x < .002 {
		s.late = append(s.late, func() { _, _ = w.exec(s, script, r) })
		return lua.Reply{Err: errAway}
	}
	values, err := w.exec(s, script, r)
	if x < .006 {
		return lua.Reply{Err: errAway}
	}
	return lua.Reply{Values: values, Err: err}
}

// exec runs a script on a shard, and sees that its bucket is the fold of the log.
func (w *world) exec(s *shard, script *lua.Script, r lua.Run) ([]string, error) {
	_, opened := s.hashes[r.Keys[0]]["at"]
	values, err := w.machine.run(s.data, w.milliseconds(), script, r)
	if err != nil {
		w.fault("script: %v", err)
	}
	if w.mirror != nil {
		w.mirrored(script, r, values)
	}
	if w.machine.wrote {
		s.remember()
		if script == takeScript || script == loadScript {
			w.checkBucket(s, r.Keys[0])
			if !opened && len(s.hashes[r.Keys[0]]) > 0 {
				w.checkOpened(s, r.Keys[0])
			}
		}
	}
	return values, err
}

// Replicated implements Valkey.
func (w *world) Replicated(ctx context.Context, _ []string) error {
	w.yield(ctx)
	return nil
}

func (w *world) shardOf(key string) int { return w.byTag[key[:strings.IndexByte(key, '}')]] }
