package changes

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

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
			if e.Number != want[i] || e.Items != 1 || e.Records[0] != (Named{"key-1", "the key-1"}) {
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

// Pages read records and lists of all buckets in one flush, and say what they lack.
func TestPages(t *testing.T) {
	w := started(t)
	w.set(t, "p active 0", w.keys...)
	w.set(t, "q active 0", "key-3")
	records, err := w.log.Records(t.Context(), "key-3", "key-9", Policy)
	if err != nil || string(records[0].Content) != "q active 0" || records[0].Number != 3 ||
		len(records[1].Content) > 0 || string(records[2].Content) != "p q " {
		t.Errorf("got %+v %v", records, err)
	}
	var all []string
	for after := ""; ; {
		found, err := w.log.List(t.Context(), Part{"plan:p\x00", after, 3}, Part{Begin: "plan:q\x00"})
		if err != nil || after == "" && found[0].Count != len(w.keys)-1 || found[1].Count != 1 {
			t.Fatalf("got %v, %v", found, err)
		}
		page := found[0].Entries
		if len(page) == 0 {
			break
		}
		all, after = append(all, page...), page[len(page)-1]
	}
	if len(all) != len(w.keys)-1 || !slices.IsSorted(all) || slices.Contains(all, "plan:p\x00key-3") {
		t.Errorf("got %q", all)
	}
	w.shardOfKey("key-1").data = newData()
	if _, err := w.log.Records(t.Context(), "key-1"); !errors.Is(err, ErrView) {
		t.Errorf("of a lost bucket: got %v, want ErrView", err)
	}
}
