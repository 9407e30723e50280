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

// cache keeps the policy changes of audit entries, which never change. Without it a page
// of 50 entries would decode two Sets of up to a megabyte for each, every two seconds.
type cache struct {
	mu    sync.Mutex
	known map[string][]templates.Change // by id and hash
	read  [2]readSet                    // the Sets of the entry decoded last
}

// readSet is a decoded Set with its JSON text.
type readSet struct {
	text json.RawMessage
	set  *policy.Set
}

// Bounds of the cache.
const (
	maxCached        = 500 // entries
	maxCachedChanges = 20  // of one entry; most have one
)

// of returns the changes of an entry, which may be unopened.
func (c *cache) of(e audit.Entry) []templates.Change {
	if e.Subject != policyset.SetID {
		return OfEntry(e.Opened())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := e.ID + " " + e.Hash
	if changes, known := c.known[id]; known {
		return changes
	}
	changes := c.find(e.Opened())
	if len(c.known) >= maxCached || c.known == nil {
		c.known = map[string][]templates.Change{}
	}
	if len(changes) <= maxCachedChanges {
		c.known[id] = changes
	}
	return changes
}

func (c *cache) find(e audit.Entry) []templates.Change {
	before, after := c.readSet(e.Before), c.readSet(e.After)
	if before.set == nil || after.set == nil {
		return nil
	}
	c.read = [2]readSet{before, after}
	return OfPolicy(before.set, after.set)
}

// readSet decodes a Set unless it is one of the last entry's, since an entry begins where
// the one before it ended. The set is nil when it cannot be decoded.
func (c *cache) readSet(text json.RawMessage) readSet {
	for _, r := range c.read {
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
