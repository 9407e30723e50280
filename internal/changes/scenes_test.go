package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tidegate/internal/lua"
	"tidegate/internal/objects"
)

// started returns a world without faults, whose log has change 1.
func started(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, "")
	t.Cleanup(func() {
		w.end()
		for _, f := range w.faults {
			t.Error(f)
		}
	})
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	w.quiet = true
	return w
}

// A shard that is away is one reason, with the number of its buckets, for the minute and
// for pages.
func TestOneErrorForEachReason(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	w.shards[1].away = 1
	const want = "2 of 6 buckets, the first is 2: "
	for what, err := range map[string]error{
		"minute": w.log.CatchUp(t.Context()),
		"page":   w.log.ask(t.Context(), func(int) (query, bool) { return query{}, true }, func(bucket) {}),
	} {
		if !errors.Is(err, errAway) || strings.Count(err.Error(), errAway.Error()) != 1 ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want one line that begins with %q", what, err, want)
		}
	}
}

// set gives a content to records, empty to delete them.
func set(content string, names ...string) Judge {
	return func(ctx context.Context, r *Reader) ([]Item, error) {
		if _, err := r.Get(ctx, names...); err != nil {
			return nil, err
		}
		var items []Item
		for _, name := range names {
			items = append(items, Item{Record: name, After: []byte(content)})
		}
		return items, nil
	}
}

func (w *world) set(t *testing.T, content string, names ...string) Receipt {
	t.Helper()
	receipt, err := w.log.Edit(t.Context(), Edit{Action: "set"}, set(content, names...))
	if err != nil || !receipt.InForce {
		t.Fatalf("set: got %+v %v", receipt, err)
	}
	return receipt
}

// get returns a record's content by an edit that changes nothing.
func (w *world) get(t *testing.T, name string) (content string) {
	t.Helper()
	_, err := w.log.Edit(t.Context(), Edit{}, func(ctx context.Context, r *Reader) ([]Item, error) {
		found, err := r.Get(ctx, name)
		if err == nil {
			content = string(found[0].Content)
		}
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// onOtherShards returns two keys whose buckets are on different shards, neither of them
// that of the first bucket of the policy.
func (w *world) onOtherShards(t *testing.T) (a, b string) {
	t.Helper()
	for _, a := range w.keys {
		for _, b := range w.keys {
			if x, y := w.shardOfKey(a), w.shardOfKey(b); x != y && x != w.shards[0] {
				return a, b
			}
		}
	}
	t.Fatal("no such keys")
	return "", ""
}

// A bucket that lost everything has no position, but its marks: a check refuses a marked
// key, and takes the rest for an outage, not for unknown keys.
func TestLostBucket(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	w.shardOfKey("key-1").data = newData()
	w.store.away = 1
	receipt, err := w.log.Mark(t.Context(), Mark{Record: "key-1"})
	if err != nil || !receipt.InForce || receipt.Number != 0 {
		t.Errorf("with the store away: got %+v %v, want in force and not stored", receipt, err)
	}
	view := make([]bucket, worldParts)
	b := w.log.bucketsOf("key-1")[0]
	w.log.read(t.Context(), view, []int{b}, nil)
	if view[b].at.Number != 0 || len(view[b].marks) != 1 || view[b].marks[0].Record != "key-1" {
		t.Errorf("got %+v, want no position and the mark", view[b])
	}
	w.store.away = 0
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, "key-1"); got != "p revoked 0" {
		t.Errorf("after the minute: got %q, want it revoked", got)
	}
}

// While a shard is away, edits that read it fail and save nothing, and others go on.
func TestOneShardAway(t *testing.T) {
	w := started(t)
	here, away := w.onOtherShards(t)
	w.set(t, "p active 0", here, away)
	w.shardOfKey(away).away = 1
	w.set(t, "p active 1", here)
	before := len(w.store.objects)
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 1", away)); !errors.Is(err, ErrView) {
		t.Errorf("an edit of the shard: got %v, want ErrView", err)
	}
	_, err := w.log.Edit(t.Context(), Edit{}, func(ctx context.Context, r *Reader) ([]Item, error) {
		return w.judge(ctx, r, "drop", nil, "q")
	})
	if !errors.Is(err, ErrView) {
		t.Errorf("an edit that reads all lists: got %v, want ErrView", err)
	}
	if len(w.store.objects) != before {
		t.Error("what failed was saved")
	}
	w.shardOfKey(away).away = 0
	w.set(t, "p active 2", away)
}

// Changes of many megabytes make a checkpoint due, and a catch-up of all buckets reads each
// change once.
func TestCheckpointByBytes(t *testing.T) {
	w := started(t)
	w.mode = "hole" // its keys have no plans
	w.log.bytes = 1 << 16
	large := strings.Repeat("x", 1<<16/7)
	old := w.shards[0].clone()
	for i := range 4 {
		w.set(t, large, fmt.Sprint("key-", i))
	}
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.store.objects[stateName(0)] != nil {
		t.Error("a checkpoint before it is due")
	}
	w.set(t, large, "key-5")
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := w.log.checkpoint(t.Context(), 0); err != nil || s.At.Number != 6 {
		t.Errorf("checkpoint: got change %d, %v; want 6", s.At.Number, err)
	}
	w.store.objects[stateName(1)][0] ^= 1 // does not matter
	for _, s := range w.shards {
		s.data = newData()
	}
	w.store.read = map[string]int{}
	if err := w.newLog().CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(5) { // the newest is read by the request and after each claim
		if got := w.store.read[name(n+1)]; got != 1 {
			t.Errorf("change %d was read %d times", n+1, got)
		}
	}
	w.shards[0].data = old // it lacks more than is held in memory
	w.log.bytes = 1 << 14
	if err := w.log.CatchUp(t.Context()); err != nil || w.at(0).Number != 6 {
		t.Errorf("an old shard: got %v at %v, want it at change 6", err, w.at(0))
	}
}

// A put whose answer is lost for longer than a request lasts is not known, and the receipt
// has the id by which the audit shows it.
func TestUnknown(t *testing.T) {
	w := started(t)
	w.store.fail = func() bool { return w.store.objects[name(2)] != nil }
	receipt, err := w.log.Edit(t.Context(), Edit{ID: "mine"}, set("p active 0", "key-1"))
	if !errors.Is(err, ErrUnknown) || receipt.ID != "mine" || receipt.Number != 0 {
		t.Errorf("got %+v %v, want ErrUnknown", receipt, err)
	}
	w.store.fail = nil
	if entries, err := w.log.Recent(t.Context(), 0, 1); err != nil || entries[0].ID != "mine" {
		t.Errorf("the audit has %+v %v", entries, err)
	}
	if got := w.get(t, "key-1"); got != "p active 0" {
		t.Errorf("got %q, want what was saved", got)
	}
}

// retried is a store whose client tries a put again after a lost answer.
type retried struct{ *fakeStore }

func (s retried) Create(ctx context.Context, name string, content []byte) error {
	if err := s.fakeStore.Create(ctx, name, content); err != nil {
		return err
	}
	s.w.store.fail = func() bool { return true }
	s.w.now += 2000 // the process is frozen
	return objects.ErrExists
}

// A name that is taken may have been taken by an attempt whose answer was lost: until the
// store answers, nobody knows.
func TestTakenByARetry(t *testing.T) {
	w := started(t)
	w.log.store = retried{w.store}
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 0", "key-1")); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

// While the store is away an edit saves nothing and says so at once.
func TestStoreAway(t *testing.T) {
	w := started(t)
	w.store.away = 1
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 0", "key-1")); !errors.Is(err, ErrStore) {
		t.Errorf("got %v, want ErrStore", err)
	}
}

// A change has at most 1,000 items, one of each record, of records that were read.
func TestItems(t *testing.T) {
	w := started(t)
	for name, items := range map[string][]Item{
		"not read": {{Record: "key-2", After: []byte("p active 0")}},
		"two":      {{Record: "key-1", After: []byte("p active 0")}, {Record: "key-1"}},
		"too many": make([]Item, MaxItems+1),
	} {
		if _, err := w.log.Edit(t.Context(), Edit{}, func(ctx context.Context, r *Reader) ([]Item, error) {
			_, err := r.Get(ctx, "key-1")
			return items, err
		}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if len(w.changes) != 1 {
		t.Errorf("got %d changes, want 1", len(w.changes))
	}
}

// A bucket that is made again keeps its marks, all of a record's, and each is stored as a
// change of its own.
func TestMarksStay(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	w.store.away = 1
	for _, id := range []string{"a", "b"} {
		receipt, err := w.log.Mark(t.Context(), Mark{ID: id, Record: "key-1"})
		if err != nil || receipt.Number != 0 {
			t.Fatalf("mark: got %+v %v", receipt, err)
		}
	}
	w.store.away = 0
	b := w.log.bucketsOf("key-1")[0]
	w.shardOfKey("key-1").del(keys(b)[0])
	r, err := w.log.begin(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	r.bring(t.Context(), all(worldParts))
	if marks := w.shardOfKey("key-1").hashes[keys(b)[2]]; r.view[b].at != r.newest || len(marks) != 2 {
		t.Errorf("made again: got %v with marks %v, want both", r.view[b].at, marks)
	}
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.changes[3].ID != "a" || len(w.changes[3].Items) != 1 || w.changes[4].ID != "b" || w.newest != 4 {
		t.Errorf("got %d changes, the last %+v and %+v", w.newest, w.changes[3], w.changes[4])
	}
}

// A bucket of which a part was lost while it was made again is not put in place.
func TestLostPart(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	b := w.log.bucketsOf("key-1")[0]
	s := w.shardOfKey("key-1")
	s.data = newData()
	r, err := w.log.begin(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	states, err := r.states(t.Context(), []int{b}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.log.valkey.Run(t.Context(), loadScript, []lua.Run{loadRun(b, "mine", "claim", "10000")})
	parts, place := w.log.loadRuns(b, "mine", states[0], false)
	for lost := range parts {
		for i, part := range parts {
			if i != lost {
				w.log.valkey.Run(t.Context(), loadScript, []lua.Run{part})
			}
		}
		reply := w.log.valkey.Run(t.Context(), loadScript, []lua.Run{place})[0]
		if at, err := positionOf(reply); err != nil || at.Number != 0 {
			t.Errorf("without part %d: got %v %v, want no position", lost, at, err)
		}
		s.del(place.Keys[3])
		s.del(place.Keys[4])
	}
	w.log.valkey.Run(t.Context(), loadScript, parts)
	reply := w.log.valkey.Run(t.Context(), loadScript, []lua.Run{place})[0]
	if at, err := positionOf(reply); err != nil || at != r.newest {
		t.Errorf("with all: got %v %v, want %v", at, err, r.newest)
	}
}

// A minute in which nothing happened asks the store for one list and one object.
func TestIdleMinute(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	for range 3 {
		w.store.read, w.store.lists = map[string]int{}, 0
		if err := w.log.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if w.store.lists != 1 || len(w.store.read) != 1 || w.store.read[name(2)] != 1 {
		t.Errorf("got %d lists and reads of %v, want one and change 2", w.store.lists, w.store.read)
	}
}
