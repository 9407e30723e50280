package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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

// A Valkey of another log: nothing is written to either, until a hand takes the log over.
func TestAnotherLog(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	other := newWorld(2, "replace")
	t.Cleanup(other.end)
	other.quiet = true
	w.mode = "replace"
	w.store = other.store
	w.log = w.newLog()
	if err := w.log.Start(t.Context(), []byte("p ")); !errors.Is(err, ErrAhead) {
		t.Errorf("an empty log: got %v, want ErrAhead", err)
	}
	if len(w.store.objects) > 0 {
		t.Errorf("the empty log got %d objects", len(w.store.objects))
	}
	for _, s := range w.shards { // of an older log: it has change 1, with another hash
		s.data = newData()
	}
	if err := w.log.Start(t.Context(), []byte("p ")); err != nil {
		t.Fatal(err)
	}
	w.store = started(t).store
	w.log = w.newLog()
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 0", "key-1")); !errors.Is(err, ErrAhead) {
		t.Errorf("another log: got %v, want ErrAhead", err)
	}
	if err := w.log.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, Policy); got != "p q " {
		t.Errorf("after the hand: got policy %q, want that of the log", got)
	}
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

// An object of the middle is lost and Valkey too: its number is not given again. The hand
// says that it is nothing, or brings it back.
func TestHoleWithoutValkey(t *testing.T) {
	w := started(t)
	w.mode = "hole"
	for i := range 5 {
		w.set(t, fmt.Sprint("p active ", i), "key-1")
	}
	w.set(t, "p active 0", "key-2")
	lost := w.store.objects[name(4)]
	delete(w.store.objects, name(4))
	for _, s := range w.shards {
		s.data = newData()
	}
	for range 2 {
		var damaged *DamagedError
		if err := w.log.CatchUp(t.Context()); !errors.As(err, &damaged) || damaged.Number != 4 {
			t.Fatalf("got %v, want that change 4 is missing", err)
		}
		if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 9", "key-1")); err == nil {
			t.Fatal("an edit was acknowledged")
		}
		w.now += 1000
	}
	if err := w.log.Void(t.Context(), Edit{}, 5); err == nil {
		t.Error("void of a whole change: got no error")
	}
	if err := w.log.Void(t.Context(), Edit{}, 4); err != nil {
		t.Fatal(err)
	}
	w.set(t, "p active 9", "key-2")
	w.store.objects[name(4)] = lost // it is nothing nevertheless
	w.shardOfKey("key-1").data = newData()
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, "key-1"); got != "p active 4" {
		t.Errorf("got %q, want what change 6 says", got)
	}
	if n, err := w.log.Verify(t.Context()); n != 9 || err != nil {
		t.Errorf("verify: got %d %v, want 9", n, err)
	}
}

// A restore to an earlier number is a change, which the minute does not undo. What was
// revoked stays revoked; what came later goes.
func TestRestoreUntil(t *testing.T) {
	w := started(t)
	until := w.set(t, "p active 0", "key-1", "key-2", "key-3").Number
	w.set(t, "q active 1", "key-1", "key-4")
	w.set(t, "", "key-3")
	if receipt, err := w.log.Mark(t.Context(), Mark{Record: "key-2"}); err != nil || receipt.Number == 0 {
		t.Fatalf("mark: got %+v %v", receipt, err)
	}
	if made, err := w.log.RestoreUntil(t.Context(), Edit{ID: "x"}, until); made != 1 || err != nil {
		t.Fatalf("restore: got %d changes, %v", made, err)
	}
	for range 2 {
		w.now += 2400
		if err := w.log.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{
		"key-1": "p active 0", "key-2": "p revoked 0", "key-3": "p active 0", "key-4": "",
	} {
		if got := w.get(t, key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if made, err := w.log.RestoreUntil(t.Context(), Edit{}, until); made != 0 || err != nil {
		t.Errorf("again: got %d changes, %v", made, err)
	}
}

// Undo takes back a change of a record that nobody changed since.
func TestUndo(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", "key-1")
	number := w.set(t, "q active 1", "key-1").Number
	if receipt, err := w.log.Undo(t.Context(), Edit{}, number); err != nil || !receipt.InForce {
		t.Fatalf("got %+v %v", receipt, err)
	}
	if got := w.get(t, "key-1"); got != "p active 0" {
		t.Errorf("got %q, want what was before", got)
	}
	if _, err := w.log.Undo(t.Context(), Edit{}, number); !errors.Is(err, errRefused) {
		t.Errorf("again: got %v, want what Revert says", err)
	}
	history, err := w.log.History(t.Context(), "key-1", w.newest, 10)
	var numbers []uint64
	for _, c := range history {
		numbers = append(numbers, c.Number)
	}
	if want := []uint64{4, 3, 2}; err != nil || !slices.Equal(numbers, want) {
		t.Errorf("history: got %v %v, want %v", numbers, err, want)
	}
}

// The page of the audit has every change, whatever its set lost and in whatever order it
// got them.
func TestAudit(t *testing.T) {
	w := started(t)
	for i := range 9 {
		w.set(t, fmt.Sprint("p active ", i), "key-1")
	}
	set := w.shards[0]
	check := func(before uint64, want ...uint64) {
		t.Helper()
		entries, err := w.log.Recent(t.Context(), before, len(want))
		if err != nil || len(entries) != len(want) {
			t.Fatalf("got %v %v", entries, err)
		}
		for i, e := range entries {
			if e.Number != want[i] || e.Items != 1 || e.Records[0] != "key-1" {
				t.Errorf("got %+v, want change %d", e, want[i])
			}
		}
	}
	check(6, 5, 4)
	check(0, 10, 9, 8, 7, 6, 5, 4, 3)
	if got := len(set.sets[auditSet]); got != 9 {
		t.Errorf("the set has %d entries, want 9", got)
	}
	set.remove(auditSet, set.scores(auditSet, "6", "6")...)
	check(0, 10, 9, 8, 7, 6, 5)
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(set.sets[auditSet]); got != 10 {
		t.Errorf("after the minute the set has %d entries, want 10", got)
	}
}

// Changes of many megabytes make a checkpoint due, and a catch-up of all buckets reads each
// change once.
func TestCheckpointByBytes(t *testing.T) {
	w := started(t)
	w.mode = "hole" // its keys have no plans
	w.log.bytes = 1 << 16
	large := strings.Repeat("x", 1<<16/7)
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
}

// A release stops at the change of a newer one.
func TestNewerFormat(t *testing.T) {
	w := started(t)
	first := w.changes[1]
	content, err := w.log.seal(name(2), Change{Format: format + 1, Number: 2, ID: "x", Before: first.hash})
	if err != nil {
		t.Fatal(err)
	}
	w.store.objects[name(2)] = content
	if err := w.log.CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("got %v, want that a newer release wrote it", err)
	}
}

// Another pepper reads nothing, and says so.
func TestAnotherPepper(t *testing.T) {
	w := started(t)
	w.mode = "damage"
	w.log.o.Key = bytes.Repeat([]byte("x"), 32)
	if err := w.log.CatchUp(t.Context()); err == nil {
		t.Error("got no error")
	}
}

// A time is the store's: a writer's wrong clock moves nothing.
func TestNumberAt(t *testing.T) {
	w := started(t)
	w.now += 1000
	w.log.o.Now = func() time.Time { return w.clock().Add(24 * time.Hour) }
	w.set(t, "p active 0", "key-1")
	for after, want := range map[time.Duration]uint64{0: 2, -time.Second: 1, time.Hour: 2, -time.Hour: 0} {
		if got, err := w.log.NumberAt(t.Context(), w.clock().Add(after)); got != want || err != nil {
			t.Errorf("%v: got %d %v, want %d", after, got, err, want)
		}
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

// While the store is away an edit saves nothing and says so at once.
func TestStoreAway(t *testing.T) {
	w := started(t)
	w.store.away = 1
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 0", "key-1")); !errors.Is(err, ErrStore) {
		t.Errorf("got %v, want ErrStore", err)
	}
}

// A writer that slept fills the hole that a lost object left. It is not acknowledged, since
// the next change does not name its hash, and edits stop.
func TestSleeperFillsAHole(t *testing.T) {
	w := started(t)
	w.mode = "hole"
	w.set(t, "p active 0", "key-1")
	sleeper, err := w.log.begin(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	w.set(t, "p active 1", "key-1")
	w.set(t, "p active 2", "key-2")
	delete(w.store.objects, name(3))
	item := Item{Record: "key-1", Last: 2, Before: []byte("p active 0"), After: []byte("p active 9")}
	receipt, err := sleeper.write(t.Context(), w.clock(), Change{ID: "late", Items: []Item{item}})
	if !errors.Is(err, ErrAhead) {
		t.Errorf("got %+v %v, want ErrAhead", receipt, err)
	}
	w.shardOfKey("key-1").data = newData()
	if err := w.log.CatchUp(t.Context()); !errors.Is(err, ErrAhead) {
		t.Errorf("got %v, want that the log is another", err)
	}
}
