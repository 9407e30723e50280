package changes

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

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

// An object of the middle is lost and Valkey too: its number is not given again. The hand
// says that it is nothing, or brings it back.
func TestHoleWithoutValkey(t *testing.T) {
	w := started(t)
	w.mode = "hole"
	for i := range 5 {
		w.set(t, fmt.Sprint("p active ", i), []string{"key-1", "key-1", "key-3", "key-1", "key-1"}[i])
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
	for b := range worldParts {
		delete(w.store.objects, stateName(b))
		w.shardOfBucket(b).data = newData()
	}
	if err := w.log.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, other := w.get(t, "key-1"), w.get(t, "key-3"); got != "p active 4" || other != "" {
		t.Errorf("got %q and %q, want what change 6 says and nothing", got, other)
	}
	if n, err := w.log.Verify(t.Context()); n != 9 || err != nil {
		t.Errorf("verify: got %d %v, want 9", n, err)
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

// The newest changes are lost, also for Valkey's buckets: their numbers are voided from the
// oldest on, and never given again. A number that nobody knows cannot be voided.
func TestVoidTheNewest(t *testing.T) {
	w := started(t)
	w.mode = "hole"
	for i := range 3 {
		w.set(t, fmt.Sprint("p active ", i), "key-1")
	}
	delete(w.store.objects, name(3))
	delete(w.store.objects, name(4))
	if _, err := w.log.Edit(t.Context(), Edit{}, set("p active 9", "key-1")); !errors.Is(err, ErrAhead) {
		t.Errorf("got %v, want ErrAhead", err)
	}
	for _, number := range []uint64{0, 1, 5, 500} {
		if err := w.log.Void(t.Context(), Edit{}, number); err == nil {
			t.Errorf("void of %d: got no error", number)
		}
	}
	var damaged *DamagedError
	if err := w.log.Void(t.Context(), Edit{}, 3); !errors.As(err, &damaged) || damaged.Number != 4 {
		t.Errorf("void of 3: got %v, want that 4 is missing", err)
	}
	if err := w.log.Void(t.Context(), Edit{}, 4); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, "key-1"); got != "p active 0" {
		t.Errorf("got %q, want what change 2 says", got)
	}
	if receipt := w.set(t, "p active 9", "key-1"); receipt.Number != 7 {
		t.Errorf("got change %d, want 7", receipt.Number)
	}
}
