package changes

import (
	"bytes"
	"encoding/json"
	"sync"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/web/templates"
)

// memory remembers what entries of the audit changed in the policies. To find out is
// to read two Sets of up to a megabyte, for each of 50 entries, every two seconds; an
// entry never changes.
type memory struct {
	mu    sync.Mutex
	known map[string][]templates.Change // by id and hash
	read  [2]readSet                    // what was read last
}

// readSet is a Set and what it was read from.
type readSet struct {
	text json.RawMessage
	set  *policy.Set
}

// Bounds of what is remembered.
const (
	maxTold        = 500 // entries
	maxToldChanges = 20  // of one entry; most have one
)

// of returns what entryChanges does of the entry, which may be unopened.
func (t *memory) of(e audit.Entry) []templates.Change {
	if e.Subject != policyset.SetID {
		return OfEntry(e.Opened())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := e.ID + " " + e.Hash
	if changes, known := t.known[id]; known {
		return changes
	}
	changes := t.find(e.Opened())
	if len(t.known) >= maxTold || t.known == nil {
		t.known = map[string][]templates.Change{}
	}
	if len(changes) <= maxToldChanges {
		t.known[id] = changes
	}
	return changes
}

func (t *memory) find(e audit.Entry) []templates.Change {
	before, after := t.readSet(e.Before), t.readSet(e.After)
	if before.set == nil || after.set == nil {
		return nil
	}
	t.read = [2]readSet{before, after}
	return OfPolicy(before.set, after.set)
}

// readSet reads a Set, unless it is one of the entry before: where that ended this one
// began. Its set is nil when it cannot be read.
func (t *memory) readSet(text json.RawMessage) readSet {
	for _, r := range t.read {
		if r.set != nil && bytes.Equal(r.text, text) {
			return r
		}
	}
	set := &policy.Set{}
	if !unmarshal(text, set) {
		return readSet{}
	}
	return readSet{text, set}
}
