package simulation

import "time"

// entry is a key of the server, with its value and how long it lives.
type entry struct {
	key, kind string
	value     string
	fields    map[string]string
	members   []string
	scores    map[string]float64
	life      time.Duration
}

// replicate lets the replica catch up.
func (w *world) replicate() {
	w.replicated, w.replica = w.now, w.replica[:0]
	for _, l := range w.ledgers() {
		l.copy()
	}
	for _, key := range w.server.Keys() {
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
		default: // streams: the audit, which no check reads
			continue
		}
		if err != nil {
			w.Fatal(err)
		}
		w.replica = append(w.replica, e)
	}
}

// failOver makes the replica the server: what was written since it caught up is lost.
func (w *world) failOver() {
	passed := w.now.Sub(w.replicated)
	w.edited = w.now
	for _, key := range w.server.Keys() {
		if w.server.Type(key) != "stream" {
			w.server.Del(key)
		}
	}
	for _, e := range w.replica {
		if e.life > 0 && e.life <= passed {
			continue
		}
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
		}
		if err != nil {
			w.Fatal(err)
		}
		if e.life > 0 {
			w.server.SetTTL(e.key, e.life-passed)
		}
	}
	for _, l := range w.ledgers() {
		l.forget()
	}
}
