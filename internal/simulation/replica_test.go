package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tidegate/internal/objects"
)

// entry is a key of the server, with its value and how long it lives.
type entry struct {
	key, kind string
	value     string
	fields    map[string]string
	members   []string
	scores    map[string]float64
	stream    []miniredis.StreamEntry
	life      time.Duration
}

// replicate lets the replica of a shard catch up.
func (w *world) replicate(shard int) {
	w.replicated[shard], w.replica[shard] = w.serverTime(), nil
	for _, l := range w.counts {
		if l.shard == shard || l.shard < 0 {
			l.copy()
		}
	}
	for _, key := range w.server.Keys() {
		if shardOfKey(key) == shard {
			w.replica[shard] = append(w.replica[shard], w.read(key))
		}
	}
}

func (w *world) read(key string) entry {
	e := entry{key: key, kind: w.server.Type(key), life: w.server.TTL(key)}
	var err error
	switch e.kind {
	case "string":
		e.value, err = w.server.Get(key)
	case "hash":
		e.fields = map[string]string{}
		var names []string
		names, err = w.server.HKeys(key)
		for _, name := range names {
			e.fields[name] = w.server.HGet(key, name)
		}
	case "list":
		e.members, err = w.server.List(key)
	case "set":
		e.members, err = w.server.Members(key)
	case "zset":
		e.scores, err = w.server.SortedSet(key)
	case "stream":
		e.stream, err = w.server.Stream(key)
	default:
		w.Fatalf("key %s has the unknown type %s", key, e.kind)
	}
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func (w *world) write(e entry) {
	var err error
	switch e.kind {
	case "string":
		err = w.server.Set(e.key, e.value)
	case "hash":
		for name, value := range e.fields {
			w.server.HSet(e.key, name, value)
		}
	case "list":
		_, err = w.server.Push(e.key, e.members...)
	case "set":
		_, err = w.server.SetAdd(e.key, e.members...)
	case "zset":
		for member, score := range e.scores {
			if _, err = w.server.ZAdd(e.key, score, member); err != nil {
				break
			}
		}
	case "stream":
		for _, s := range e.stream {
			if _, err = w.server.XAdd(e.key, s.ID, s.Values); err != nil {
				break
			}
		}
	}
	if err != nil {
		w.Fatal(err)
	}
}

// failOver makes the replica of a shard its server: what was written since it caught up
// is lost. The minute then brings the changes. A mark that was not stored would be lost, so
// the minute stores it before.
func (w *world) failOver(shard int) {
	w.minute()
	w.note("shard %d fails over, loses everything since %s", shard,
		w.replicated[shard].UTC().Format("15:04:05.000000"))
	passed := w.serverTime().Sub(w.replicated[shard])
	for _, key := range w.server.Keys() {
		if shardOfKey(key) == shard {
			w.server.Del(key)
		}
	}
	for _, e := range w.replica[shard] {
		if e.life > 0 && e.life <= passed {
			continue
		}
		w.write(e)
		if e.life > 0 {
			w.server.SetTTL(e.key, e.life-passed)
		}
	}
	for _, l := range w.counts {
		if l.shard == shard {
			l.forget()
		}
	}
	w.heal()
}

// lose empties Valkey. After some calls the minute makes it again from the log. The counts
// are lost, and nothing else is.
func (w *world) lose() {
	w.minute()
	w.note("Valkey loses everything")
	w.server.FlushAll()
	for _, l := range w.counts {
		*l = ledger{shard: l.shard}
	}
	w.empty, w.edited = true, w.now
	for range w.IntN(4) {
		w.call()
	}
	w.heal()
	w.empty = false
}

// heal lets the minute bring what the log has, and the replicas catch up. The server that
// took over has no scripts.
func (w *world) heal() {
	if err := w.link.Client.Do(w.Context(), w.link.Client.B().ScriptFlush().Build()).Error(); err != nil {
		w.Fatal(err)
	}
	w.minute()
	w.edited = w.now
	for shard := range shards {
		w.replicate(shard)
	}
}

// minute is what the admin function does once a minute. Afterwards all of Valkey is at the
// newest change, and no mark is left.
func (w *world) minute() {
	if err := w.store.CatchUp(w.Context()); err != nil {
		w.fail("the minute: %v", err)
	}
	s := w.store.LogStatus(w.Context())
	if s.Problem != nil || s.Behind > 0 || s.Marks > 0 {
		w.fail("after the minute: %+v", s)
	}
	w.note("the minute brings change %d", s.Newest)
}

// memory is the store of the log in memory. While it is gone, it fails.
type memory struct {
	mu     sync.Mutex
	byName map[string]object
	gone   bool
}

type object struct {
	content []byte
	stored  time.Time
}

var errGone = errors.New("the store is gone")

func (o *memory) Create(_ context.Context, name string, content []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return errGone
	}
	if _, found := o.byName[name]; found {
		return objects.ErrExists
	}
	o.byName[name] = object{slices.Clone(content), time.Now()}
	return nil
}

func (o *memory) Replace(_ context.Context, name string, content []byte, keep func([]byte) bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return errGone
	}
	if stored, found := o.byName[name]; !found || !keep(stored.content) {
		o.byName[name] = object{slices.Clone(content), time.Now()}
	}
	return nil
}

func (o *memory) Read(_ context.Context, name string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return nil, errGone
	}
	if stored, found := o.byName[name]; found {
		return slices.Clone(stored.content), nil
	}
	return nil, objects.ErrNotFound
}

func (o *memory) List(_ context.Context, prefix, after string) (list []objects.Object, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return nil, errGone
	}
	for _, name := range slices.Sorted(maps.Keys(o.byName)) {
		if stored := o.byName[name]; strings.HasPrefix(name, prefix) && name > after {
			list = append(list, objects.Object{Name: name, Size: int64(len(stored.content)),
				Modified: stored.stored})
		}
	}
	return list, nil
}
