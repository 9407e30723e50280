package changes

import (
	"tidegate/internal/audit"
	"tidegate/web/templates"
)

// MaxTold is how many entries are remembered.
const MaxTold = maxTold

// Told remembers what entries changed.
type Told struct{ memory }

// Of is what an entry changed.
func (t *Told) Of(e audit.Entry) []templates.Change { return t.of(e) }

// Len is how many entries are remembered.
func (t *Told) Len() int { return len(t.known) }
