package changes

import (
	"context"
	"slices"
)

// strike does to the log what only a hand repairs.
func (w *world) strike() {
	switch w.mode {
	case "replace":
		w.replace()
	case "hole", "damage":
		// The removed change is one that a bucket took, so that it may be missed.
		var taken uint64
		for b := range worldParts {
			taken = max(taken, w.at(b).Number)
		}
		if taken < 2 {
			return
		}
		w.gone = 2 + w.rnd.Uint64N(taken-1)
		w.lostID, w.lostObject = w.changes[w.gone].ID, w.store.objects[name(w.gone)]
		if w.mode == "hole" {
			delete(w.store.objects, name(w.gone))
		} else {
			damaged := slices.Clone(w.lostObject)
			damaged[w.rnd.IntN(len(damaged))] ^= 1
			w.store.objects[name(w.gone)] = damaged
		}
	}
}

// replace replaces the log by an older one or by another one, and all processes.
func (w *world) replace() {
	for len(w.tasks) > 0 {
		w.turn(w.tasks[0], false)
	}
	w.store.late = nil
	for _, s := range w.shards {
		s.late = nil
	}
	keep := max(1, w.newest-min(w.newest, 3))
	if w.rnd.IntN(2) == 0 {
		keep = 1
		content, err := w.log.seal(name(1), Change{Format: format, Number: 1, ID: "other",
			Items: []Item{{Record: Policy, After: []byte("p q ")}}})
		if err != nil {
			w.fault("%v", err)
		}
		w.store.objects[name(1)] = content
	}
	for n := range w.changes {
		if n > keep {
			delete(w.store.objects, name(n))
		}
	}
	if w.rnd.IntN(2) == 0 {
		for b := range worldParts {
			delete(w.store.objects, stateName(b))
		}
	}
	w.changes, w.newest, w.folds, w.policy = map[uint64]Change{}, 0, w.folds[:1], w.policy[:1]
	for n := uint64(1); n <= keep; n++ {
		w.landed(name(n))
	}
	clear(w.acked)
	clear(w.refuse)
	clear(w.allow)
	clear(w.need)
	w.needPolicy = 0
	w.gone = keep
}

// help is the hand that a history needs.
func (w *world) help() {
	ctx := context.Background()
	switch {
	case w.mode == "replace":
		if err := w.log.TakeOver(ctx); err != nil {
			w.fault("take over: %v", err)
		}
	case w.refilled:
	case w.rnd.IntN(2) == 0:
		w.store.objects[name(w.gone)] = w.lostObject
	default:
		w.ids++
		if err := w.log.Void(ctx, Edit{Action: "void"}, w.gone); err != nil {
			w.fault("void: %v", err)
		}
		if w.rnd.IntN(2) == 0 { // it is found, and nevertheless nothing
			w.store.objects[name(w.gone)] = w.lostObject
			w.lose(w.shards[w.rnd.IntN(shards)])
		}
	}
	for _, s := range w.shards {
		s.lost = true // the hand decided
	}
	for range 2 {
		w.now += 2400
		if err := w.log.CatchUp(ctx); err != nil && !w.refilled {
			w.fault("a quiet minute after the hand: %v", err)
		}
	}
}
