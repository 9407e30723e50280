package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/store/keyspace"
)

// plans are the plans of the histories.
var plans = []string{"p", "q"}

// edit is a client's request that is not a revocation.
func (w *world) edit(kind string, names []string, plan string, ifMatch bool) {
	w.ids++
	id := fmt.Sprint("c", w.ids)
	w.add(kind, names[0], func(ctx context.Context, t *task) {
		l := w.newLog()
		if kind == "undo" {
			w.undo(ctx, t, l, id)
			return
		}
		var seen uint64
		judge := func(ctx context.Context, r *Reader) ([]Item, error) {
			items, err := w.judge(ctx, r, kind, names, plan)
			if err != nil || len(items) == 0 {
				return nil, err
			}
			if ifMatch {
				number := r.read[names[0]].Number
				if seen > 0 && seen != number {
					return nil, errRefused
				}
				seen = number
			}
			if t.slow { // a client's judgement takes its time
				for range w.rnd.IntN(30) {
					w.yield(ctx)
				}
			}
			return items, nil
		}
		receipt, err := l.Edit(ctx, Edit{ID: id, Action: kind}, judge)
		w.toldOf(t, id, kind, names, receipt, err)
	})
}

func (w *world) undo(ctx context.Context, t *task, l *Log, id string) {
	if w.newest < 2 {
		return
	}
	number := w.newest - uint64(w.rnd.IntN(int(min(w.newest-1, 5))))
	receipt, err := l.Undo(ctx, Edit{ID: id, Action: "undo"}, number)
	w.toldOf(t, id, "undo", nil, receipt, err)
}

// judge decides as the registry will: no key without its plan, no plan removed that a key
// has.
func (w *world) judge(ctx context.Context, r *Reader, kind string, names []string, plan string,
) ([]Item, error) {
	policy, err := r.Get(ctx, Policy)
	if err != nil {
		return nil, err
	}
	has := strings.Fields(string(policy[0].Content))
	switch kind {
	case "add":
		if slices.Contains(has, plan) {
			return nil, nil
		}
		return []Item{{Record: Policy, After: []byte(strings.Join(append(has, plan), " ") + " ")}}, nil
	case "drop":
		if !slices.Contains(has, plan) {
			return nil, nil
		}
		if used, err := r.Count(ctx, "plan:"+plan+"\x00"); err != nil || used > 0 {
			return nil, err
		}
		has = slices.DeleteFunc(has, func(p string) bool { return p == plan })
		return []Item{{Record: Policy, After: []byte(strings.Join(has, " ") + " ")}}, nil
	}
	found, err := r.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, record := range found {
		after := record.Content
		switch exists := len(after) > 0; {
		case kind == "create" && !exists && slices.Contains(has, plan):
			after = []byte(plan + " active 0")
		case kind == "create" || !exists:
		case kind == "delete":
			after = nil
		case kind == "unrevoke":
			after = with(with(after, "status", "active"), "tag", fmt.Sprint(w.ids, w.now))
		default:
			after = with(after, "tag", fmt.Sprintf("%d-%d", w.ids, w.now))
		}
		if !bytes.Equal(after, record.Content) {
			items = append(items, Item{Record: record.Name, After: after})
		}
	}
	return items, nil
}

// toldOf notes what a client was told of an edit.
func (w *world) toldOf(t *task, id, kind string, names []string, receipt Receipt, err error) {
	w.told(err)
	if err != nil || receipt.Number == 0 {
		if err != nil {
			w.stats["refused"]++
		}
		if _, stored := w.numberOf(id); stored && !errors.Is(err, ErrUnknown) && receipt.Number == 0 {
			w.fault("edit %s was told that nothing is saved: %v", id, err)
		}
		return
	}
	w.stats["edits"]++
	w.acknowledged(id, t.began, receipt)
	switch kind {
	case "add", "drop":
		if receipt.InForce {
			w.needPolicy = max(w.needPolicy, receipt.Number)
		}
	case "unrevoke":
		k := names[0]
		started, tried := w.started[k]
		answered, revoked := w.answered[k]
		active := field(w.folds[w.newest][k].Content, 1) == "active"
		if receipt.InForce && active && !w.forgotten[k] && (!tried || started < t.began) &&
			(!revoked || answered < t.began) && !w.revoking(k) {
			w.allow[k] = promise{uint64(w.now), t.began}
		}
	}
}

// told notes a hand that a request asked for.
func (w *world) told(err error) {
	var damaged *DamagedError
	if errors.Is(err, ErrAhead) || errors.As(err, &damaged) {
		w.hand = true
		if w.mode == "" {
			w.fault("a hand is needed after nothing that needs one: %v", err)
		}
	}
}

func (w *world) numberOf(id string) (uint64, bool) {
	for n, c := range w.changes {
		if c.ID == id {
			return n, true
		}
	}
	return 0, false
}

func (w *world) revoking(key string) bool {
	return slices.ContainsFunc(w.tasks, func(t *task) bool {
		return t.kind == "revoke" && t.key == key && !t.done
	})
}

// acknowledged checks that a change is stored at its number, and in force.
func (w *world) acknowledged(id string, began int, receipt Receipt) {
	n := receipt.Number
	w.acked[id] = n
	if id == w.lostID {
		return // removed since it was stored
	}
	c, found := w.changes[n]
	if !found || c.ID != id {
		w.fault("%s was acknowledged as change %d, which is %q", id, n, c.ID)
		return
	}
	for b := range worldParts {
		// A bucket that knows the removed change, or a later one, says so.
		at := w.at(b)
		if s := w.shardOfBucket(b); s.awayAt >= began || s.lostAt >= began {
			continue // the writer did not hear of it
		}
		if w.refilled && n == w.gone && receipt.InForce && at.Number >= n &&
			at.Hash != w.changes[at.Number].hash {
			w.fault("%s was acknowledged as the removed change %d, and bucket %d is at %v", id, n, b, at)
		}
	}
	if !receipt.InForce {
		w.stats["later"]++
		return
	}
	for b := range worldParts {
		if !c.policy() && c.in[b] == nil {
			continue
		}
		at := w.at(b)
		if !w.shardOfBucket(b).lost && (at.Number < n || at.Number == n && at.Hash != c.hash) {
			w.fault("%s was acknowledged as change %d, and bucket %d is at %v", id, n, b, at)
		}
	}
	for _, i := range c.Items {
		if n > w.need[i.Record].number {
			w.need[i.Record] = promise{n, began}
		}
	}
}

// revoke is a client's revocation.
func (w *world) revoke(key string) {
	w.ids++
	id := fmt.Sprint("c", w.ids)
	delete(w.allow, key)
	w.started[key] = w.now
	if w.revokes[key] == nil {
		w.revokes[key] = map[string]int{}
	}
	w.revokes[key][id] = w.now
	w.add("revoke", key, func(ctx context.Context, t *task) {
		receipt, err := w.newLog().Mark(ctx, Mark{ID: id, Record: key, Action: "revoke"})
		if err != nil {
			w.told(err)
			return
		}
		w.stats["revoked"]++
		w.answered[key] = w.now
		s := w.shardOfKey(key)
		if !w.undone(key, id) && (receipt.Number > 0 || !s.lost && s.lostAt <= t.began) {
			w.refuse[key] = promise{uint64(w.now), t.began}
			w.byMark[key] = receipt.Number == 0
		}
		if receipt.Number > 0 {
			w.acknowledged(id, t.began, receipt)
		} else {
			w.stats["marked"]++
		}
	})
}

// undone reports whether a revocation is in the log, and the key was changed back since.
func (w *world) undone(key, id string) bool {
	n, found := w.numberOf(id)
	if !found {
		return false
	}
	for m, c := range w.changes {
		for _, i := range c.Items {
			if m > n && i.Record == key && field(i.After, 1) != "revoked" {
				return true
			}
		}
	}
	return false
}

func (w *world) minute() {
	w.add("minute", "", func(ctx context.Context, t *task) {
		err := w.newLog().CatchUp(ctx)
		w.told(err)
		if err == nil {
			for _, s := range w.shards {
				if s.lostAt < t.began {
					s.lost = false
				}
			}
		}
	})
}

func (w *world) checkpoints() {
	w.add("checkpoints", "", func(ctx context.Context, _ *task) {
		r, err := w.newLog().begin(ctx, false)
		if err == nil {
			err = r.writeStates(ctx, false)
		}
		w.told(err)
	})
}

// check is a call of a client with a key: it reads the key's bucket at one instant. What was
// promised before the call holds, unless the shard forgot it since.
func (w *world) check(key string, environment int) {
	s := w.shardOfKey(key)
	need, policy := w.need[key], w.needPolicy
	refuse, refused := w.refuse[key]
	allow, allowed := w.allow[key]
	w.add("check", key, func(ctx context.Context, _ *task) {
		w.yield(ctx)
		if s.away > 0 || w.hand || w.mode != "" && w.gone > 0 {
			return
		}
		view := make([]bucket, worldParts)
		b := w.log.bucketsOf(key)[0]
		ask := func(int) query { return query{records: []string{key}} }
		w.log.read(context.Background(), view, []int{b}, ask)
		v := view[b]
		holds := func(since int) bool { return !s.lost || s.lostAt < since }
		marked := slices.ContainsFunc(v.marks, func(m Mark) bool { return m.Record == key })
		status := field(v.records[0].Content, 1)
		degraded := !marked && v.at.Number == 0
		passes := !marked && !degraded && status == "active"
		now, still := w.refuse[key]
		if refused && still && now == refuse && holds(now.step) && (passes || degraded) {
			w.fault("key %s is revoked, and a check saw %q at %v", key, status, v.at)
		}
		if now, still := w.allow[key]; allowed && still && now == allow && holds(now.step) && !passes {
			w.fault("key %s is active, and a check saw %q, marked %t", key, status, marked)
		}
		if marked || degraded {
			return
		}
		if holds(need.step) && v.at.Number < need.number {
			w.fault("a check saw %s at change %d, not at %d", key, v.at.Number, need.number)
		}
		w.checkPolicy(environment, v.policy, policy, s.lost)
	})
}

// checkPolicy is an environment that reads the policy when a bucket has a newer one.
func (w *world) checkPolicy(environment int, told, need uint64, lost bool) {
	if told > w.environments[environment] {
		var best uint64
		sure := true
		for _, d := range w.log.documents() {
			s := w.shardOfBucket(d)
			if s.away > 0 || s.lost {
				sure = false
			}
			if s.away == 0 {
				number, _, _ := strings.Cut(s.hashes[keys(d)[0]][keyspace.RecordField(Policy)], " ")
				best = max(best, parsePosition(number).Number)
			}
		}
		if best < told && sure && !lost {
			w.fault("a check is told of policy %d, which nobody has", told)
		}
		w.environments[environment] = max(w.environments[environment], best)
		if sure && !lost && w.environments[environment] < need {
			w.fault("a check goes by policy %d, not %d", w.environments[environment], need)
		}
	}
}
