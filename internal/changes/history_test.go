package changes

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// events of a step, by chance.
func (w *world) events() {
	rnd := w.rnd
	busy := 0
	for _, t := range w.tasks {
		if t.kind != "check" && t.kind != "minute" {
			busy++
		}
	}
	if busy < 4 && rnd.Float64() < .2 {
		key, plan := w.keys[rnd.IntN(len(w.keys))], plans[rnd.IntN(len(plans))]
		switch x := rnd.Float64() * 22; {
		case x < 5:
			w.edit("create", []string{key}, plan, false)
		case x < 7:
			w.edit("update", []string{key}, plan, true)
		case x < 9:
			w.edit("delete", []string{key}, plan, false)
		case x < 12.5:
			w.revoke(key)
		case x < 16:
			w.edit("unrevoke", []string{key}, plan, false)
		case x < 17.2:
			w.edit("add", []string{Policy}, plan, false)
		case x < 18.4:
			w.edit("drop", []string{Policy}, plan, false)
		case x < 20.5:
			i := rnd.IntN(len(w.keys) - 4)
			w.edit("bulk", w.keys[i:i+4], plan, false)
		default:
			w.edit("undo", []string{""}, plan, false)
		}
	}
	if rnd.Float64() < .006 {
		w.minute()
	}
	if rnd.Float64() < .002 {
		w.checkpoints()
	}
	if rnd.Float64() < .08 {
		w.check(w.keys[rnd.IntN(len(w.keys))], rnd.IntN(2))
	}
	if rnd.Float64() < .0025 {
		w.lose(w.shards[rnd.IntN(shards)])
	}
	if rnd.Float64() < .001 {
		w.shards[rnd.IntN(shards)].away = 20 + rnd.IntN(180)
	}
	if rnd.Float64() < .0008 {
		w.store.away = 20 + rnd.IntN(180)
		if rnd.IntN(20) == 0 {
			w.store.away = 1200 // longer than a request tries
		}
	}
	if len(w.tasks) > 0 && rnd.Float64() < .003 { // a function is frozen
		t := w.tasks[rnd.IntN(len(w.tasks))]
		t.wake = w.now + rnd.IntN(1200)
	}
	if len(w.tasks) > 0 && rnd.Float64() < .003 {
		w.turn(w.tasks[rnd.IntN(len(w.tasks))], false) // a process dies
	}
}

func (w *world) lose(s *shard) {
	before := s.data
	s.lose(w.rnd, w.now)
	if w.mirror != nil {
		w.mirrorShard(before, s.data)
	}
	for _, k := range w.keys {
		for id := range w.revokes[k] {
			if _, stored := w.numberOf(id); !stored && w.shardOfKey(k) == s {
				w.forgotten[k] = true // and may come back with an older shard
			}
		}
		if w.shardOfKey(k) == s && w.byMark[k] {
			delete(w.refuse, k) // the answer said that it is not stored yet
			delete(w.byMark, k)
		}
	}
}

// late lets one message of those that are late arrive.
func (w *world) late() {
	w.store.away = max(0, w.store.away-1)
	if n := len(w.store.late); n > 0 && w.rnd.Float64() < .15 {
		i := w.rnd.IntN(n)
		do := w.store.late[i]
		w.store.late = slices.Delete(w.store.late, i, i+1)
		do()
	}
	for _, s := range w.shards {
		if s.away > 0 {
			s.away, s.awayAt = s.away-1, w.now
		}
		if n := len(s.late); n > 0 && s.away == 0 && w.rnd.Float64() < .1 {
			do := s.late[n-1]
			s.late = s.late[:n-1]
			do()
		}
	}
}

// play plays a history of some steps and returns what broke.
func (w *world) play(steps int) []string {
	defer w.end()
	if err := w.start(); err != nil {
		w.fault("start: %v", err)
		return w.faults
	}
	begin := w.now
	for w.now < begin+steps && len(w.faults) == 0 {
		w.now++
		w.late()
		if w.now == begin+steps/2 {
			w.strike()
		}
		w.events()
		w.oneTurn()
	}
	if len(w.faults) == 0 {
		w.calm()
	}
	return w.faults
}

func (w *world) start() error {
	w.quiet = true
	defer func() { w.quiet = false }()
	return w.log.Start(context.Background(), []byte("p q "))
}

// oneTurn gives a turn to a task that does not wait.
func (w *world) oneTurn() {
	if len(w.tasks) == 0 {
		return
	}
	for range 4 {
		if t := w.tasks[w.rnd.IntN(len(w.tasks))]; t.wake <= w.now && (!t.slow || w.rnd.IntN(8) == 0) {
			w.turn(t, true)
			return
		}
	}
}

// calm ends all faults and requests, lets two minutes pass and checks what is left.
func (w *world) calm() {
	for _, s := range w.shards {
		s.away = 0
	}
	w.store.away = 0
	for turns := 0; len(w.tasks) > 0 && len(w.faults) == 0; turns++ {
		if turns > 30_000 {
			w.fault("a request never ends: %s", w.tasks[0].kind)
			return
		}
		w.now++
		t := w.tasks[turns%len(w.tasks)]
		if t.wake <= w.now {
			w.turn(t, true)
		}
	}
	for w.store.late != nil {
		late := w.store.late
		w.store.late = nil
		for _, do := range late {
			do()
		}
	}
	for _, s := range w.shards {
		for _, do := range s.late {
			do()
		}
	}
	w.quiet = true
	for range 2 {
		w.now += 2400
		err := w.log.CatchUp(context.Background())
		w.told(err)
		if err != nil && !w.hand {
			w.fault("a quiet minute: %v", err)
		}
	}
	var damaged *DamagedError
	if _, err := w.log.Verify(context.Background()); errors.As(err, &damaged) && w.mode != "" {
		w.hand = true // nobody needed the change meanwhile
	}
	if len(w.faults) == 0 && w.hand {
		w.help()
	}
	if len(w.faults) == 0 && !w.refilled {
		w.final()
	}
}

// final checks the log and the view after all.
func (w *world) final() {
	if uint64(len(w.changes)) != w.newest && w.mode == "" {
		w.fault("the log has a gap after change %d", w.newest)
	}
	ids := map[string]uint64{}
	for n, c := range w.changes {
		if other, twice := ids[c.ID]; twice && c.ID != w.lostID { // a mark of what is nothing is stored again
			w.fault("edit %s is in the log twice, at %d and %d", c.ID, n, other)
		}
		ids[c.ID] = n
	}
	for id, n := range w.acked {
		if ids[id] != n && id != w.lostID {
			w.fault("%s was acknowledged as change %d", id, n)
		}
	}
	newest, err := w.log.Verify(context.Background())
	if err != nil || newest != w.newest {
		w.fault("verify: change %d, want %d: %v", newest, w.newest, err)
	}
	for b := range worldParts {
		s := w.shardOfBucket(b)
		w.checkBucket(s, keys(b)[0])
		if at := w.at(b); at != w.changes[w.newest].position() {
			w.fault("bucket %d is at %v, not at %d", b, at, w.newest)
		}
		if marks := s.hashes[keys(b)[2]]; len(marks) > 0 {
			w.fault("bucket %d still has marks: %v", b, slices.Sorted(maps.Keys(marks)))
		}
	}
	for key := range w.refuse {
		if field(w.folds[w.newest][key].Content, 1) == "active" && !w.shardOfKey(key).lost && w.mode == "" {
			w.fault("the revocation of %s is gone", key)
		}
	}
}

// end ends all tasks.
func (w *world) end() {
	for len(w.tasks) > 0 {
		w.turn(w.tasks[0], false)
	}
	w.machine.state.Close()
}
