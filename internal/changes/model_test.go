package changes

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/store/keyspace"
)

// landed follows the log.
func (w *world) landed(object string) {
	n, err := numberOf(object)
	if err != nil {
		w.fault("%v", err)
		return
	}
	c, err := w.log.decode(n, w.store.objects[object])
	if err != nil || c.bad != nil {
		w.fault("change %d: %v %v", n, err, c.bad)
		return
	}
	if n == w.gone && w.mode == "hole" {
		w.refilled = true
	}
	w.changes[n] = c
	w.landedAt[n] = w.now
	if n <= w.newest {
		return
	}
	if len(c.Void) > 0 {
		w.void = c.Void
		w.refold()
		return
	}
	for {
		c, found := w.changes[w.newest+1]
		if !found {
			return
		}
		w.newest++
		w.fold(c)
	}
}

// refold folds the log again, without what is nothing.
func (w *world) refold() {
	w.newest, w.folds, w.policy = 0, []map[string]Record{{}}, []uint64{0}
	last := slices.Max(slices.Collect(maps.Keys(w.changes)))
	for w.newest < last {
		w.newest++
		w.fold(w.changes[w.newest])
	}
}

func (w *world) isVoid(n uint64) bool {
	return slices.ContainsFunc(w.void, func(v Void) bool { return v.Number == n })
}

func (w *world) fold(c Change) {
	state, policy := maps.Clone(w.folds[len(w.folds)-1]), w.policy[len(w.policy)-1]
	if !w.isVoid(w.newest) {
		for _, i := range c.Items {
			before := state[i.Record]
			if before.Number != i.Last || !bytes.Equal(before.Content, i.Before) {
				if w.mode == "" {
					w.fault("change %d was judged on another version of %s: %d %q, it says %d %q", c.Number,
						i.Record, before.Number, before.Content, i.Last, i.Before)
				}
			}
			if len(i.After) == 0 {
				delete(state, i.Record)
			} else {
				state[i.Record] = Record{Name: i.Record, Content: i.After, Number: c.Number}
			}
			if i.Record == Policy {
				policy = c.Number
				continue
			}
			w.endPromises(c, i, field(before.Content, 1))
		}
	}
	w.folds, w.policy = append(w.folds, state), append(w.policy, policy)
	if w.mode == "" {
		plans := strings.Fields(string(state[Policy].Content))
		for name, r := range state {
			if name != Policy && !slices.Contains(plans, field(r.Content, 0)) {
				w.fault("key %s has a plan that is gone", name)
			}
		}
	}
}

// endPromises ends what was promised of a key by what a later change says.
func (w *world) endPromises(c Change, i Item, before string) {
	switch status := field(i.After, 1); {
	case status == "":
		delete(w.refuse, i.Record)
		delete(w.allow, i.Record)
	case status == "active" && before != "active":
		delete(w.refuse, i.Record)
	case status == "revoked":
		at, ours := w.revokes[i.Record][c.ID] // else it is an undo
		if !ours || at > int(w.allow[i.Record].number) {
			delete(w.allow, i.Record)
		}
	}
}

// checkBucket compares a bucket with the fold of the log at its position.
func (w *world) checkBucket(s *shard, hash string) {
	b := w.bucket[hash[:strings.IndexByte(hash, '}')]]
	name := keys(b)
	stored := s.hashes[name[0]]
	at := parsePosition(stored["at"])
	c, found := w.changes[at.Number]
	if !found || c.hash != at.Hash || at.Number >= uint64(len(w.folds)) {
		if at.Number > 0 && w.mode == "" {
			w.fault("bucket %d is at %v, which the log does not have", b, at)
		}
		return
	}
	if w.refilled || slices.ContainsFunc(w.void, func(v Void) bool { return v.By > at.Number }) {
		return
	}
	want, lists := map[string]string{"at": at.String()}, map[string]bool{}
	if p := w.policy[at.Number]; p > 0 {
		want["policy"] = strconv.FormatUint(p, 10)
	}
	for record, r := range w.folds[at.Number] {
		if slices.Contains(w.log.bucketsOf(record), b) {
			want[keyspace.RecordField(record)] = value(r.Number, r.Content)
			for _, entry := range w.log.lists(record, r.Content) {
				lists[entry] = true
			}
		}
	}
	if !maps.Equal(stored, want) {
		w.fault("bucket %d is not the log at change %d: %v, want %v", b, at.Number, stored, want)
	}
	for entry := range s.sets[name[1]] {
		if !lists[entry] {
			w.fault("bucket %d at change %d has the entry %q", b, at.Number, entry)
		}
	}
	if len(lists) != len(s.sets[name[1]]) {
		w.fault("bucket %d at change %d lacks an entry of a list: %v", b, at.Number, s.sets[name[1]])
	}
}

// checkOpened checks that a bucket that had no position is not opened in the past: a loader
// has ten seconds from its claim, after which it asked for the newest change.
func (w *world) checkOpened(s *shard, hash string) {
	at := parsePosition(s.hashes[hash]["at"])
	if landed, found := w.landedAt[at.Number+1]; found && landed < w.now-int(claimFor/step) && w.mode == "" {
		w.fault("a lost bucket was opened at change %d, %d steps after the next one", at.Number, w.now-landed)
	}
}

func (w *world) shardOfBucket(b int) *shard { return w.shards[b*shards/worldParts] }

func (w *world) shardOfKey(key string) *shard { return w.shardOfBucket(w.log.bucketsOf(key)[0]) }

// at is a bucket's position.
func (w *world) at(b int) Position {
	return parsePosition(w.shardOfBucket(b).hashes[keys(b)[0]]["at"])
}
