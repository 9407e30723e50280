package changes

import (
	"tidegate/internal/audit"
	"tidegate/web/templates"
)

// MaxCached is the maximum number of entries in a Cache.
const MaxCached = maxCached

// Cache keeps the changes of audit entries.
type Cache struct{ cache }

// Of returns the changes of an entry.
func (c *Cache) Of(e audit.Entry) []templates.Change { return c.of(e) }

// Len returns the number of cached entries.
func (c *Cache) Len() int { return len(c.known) }
