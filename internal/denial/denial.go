// Package denial remembers who is blocked, so that a caller who hammers costs the store next to nothing.
//
// An answer is given again only while the same call would certainly be denied: until the instant that Retry-After names, by the server's clock as far
// as it can be known here, and never later than it. It is given again for a stated time at most, since somebody may edit or reset the caller's limits
// meanwhile; after that one call asks the store. And it is given again only to callers who hammer: those who were denied 10 times in a row in this
// program, each time within the stated time of the call before. So an edit acts on the next check of everybody else, and on one of these at most the
// stated time later.
package denial

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/elapsed"
	"tidegate/internal/policy"
)

const (
	maxEntries = 4_096
	// hammering is after how many denials in a row an answer is given again.
	hammering = 10
)

// Call tells calls apart that are not denied alike.
type Call struct {
	Subject    string
	Proof      [sha256.Size]byte // hash of the caller's secret
	Plan       string            // that the call names
	Rule       string
	Cost       int64
	SetVersion int64
}

// Cache holds denials. It is bounded, and safe for concurrent use.
type Cache struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries *simplelru.LRU[Call, *entry]
}

type entry struct {
	checked        policy.Checked
	asked, replied time.Time
	last           time.Time // when the caller last called
	denials        int       // in a row
}

// New returns an empty Cache whose answers hold for the lifetime; 0 makes it one that remembers nothing.
func New(lifetime time.Duration, now func() time.Time) *Cache {
	entries, _ := simplelru.NewLRU[Call, *entry](maxEntries, nil) // fails for a size below 1 alone
	return &Cache{lifetime: lifetime, now: now, entries: entries}
}

// Find returns the answer to a call that is known to be denied still, with its times as they are now.
func (c *Cache) Find(call Call) (policy.Checked, bool) {
	if c.lifetime == 0 {
		return policy.Checked{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found := c.entries.Get(call)
	if !found || e.denials < hammering {
		return policy.Checked{}, false
	}
	now := c.now()
	// The server decided after it was asked, so its instant comes no earlier than this.
	if elapsed.AtMost(e.asked, now) >= min(c.lifetime, e.checked.RetryAfter()) {
		return policy.Checked{}, false
	}
	e.last = now
	return after(e.checked, elapsed.AtLeast(e.replied, now)), true
}

// Learn takes note of the store's answer to a call that was asked at this time.
func (c *Cache) Learn(call Call, asked time.Time, checked policy.Checked) {
	if c.lifetime == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !checked.Repeats {
		c.entries.Remove(call)
		return
	}
	now := c.now()
	e, found := c.entries.Get(call)
	if !found {
		e = &entry{}
		c.entries.Add(call, e)
	}
	if elapsed.AtMost(e.last, asked) >= c.lifetime {
		e.denials = 0
	}
	e.denials = min(e.denials+1, hammering)
	e.checked, e.asked, e.replied, e.last = checked, asked, now, now
}

// after is a denial as the store would give it some time later. The limits of others are left out: they are not denied by them.
func after(checked policy.Checked, passed time.Duration) policy.Checked {
	checked.Now = checked.Now.Add(passed)
	limits := make([]policy.Applied, 0, len(checked.Limits))
	for _, l := range checked.Limits {
		if l.Scope != policy.ScopeKey && l.Scope != policy.ScopeRoute {
			continue
		}
		l.Reset, l.RetryAfter = max(0, l.Reset-passed), max(0, l.RetryAfter-passed)
		limits = append(limits, l)
	}
	checked.Limits = limits
	return checked
}
