package decide

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/store"
)

// A denial is answered again from memory only while the same call would certainly be
// denied: until the instant of Retry-After by the server's clock, and for a stated time
// at most, because somebody may edit or reset the caller's limits meanwhile. After that
// one call asks Valkey. Only callers that were denied 10 times in a row in this process,
// each time within the stated time of the call before, are answered so. An edit acts on
// the next check of every other caller, and on one of these at most the stated time
// later.

const (
	maxEntries = 4_096
	// repeatAfter is the number of denials in a row after which an answer is repeated.
	repeatAfter = 10
)

// DeniedCall distinguishes calls that are not denied alike.
type DeniedCall struct {
	Subject    string
	Proof      [sha256.Size]byte // hash of the caller's secret
	Plan       string            // that the call names
	Rule       string
	Cost       int64
	SetVersion int64
}

// alike is the call under whatever Set: a cache holds one answer to it.
func (c DeniedCall) alike() DeniedCall {
	c.SetVersion = 0
	return c
}

// DenialCache holds denials. It is bounded, and safe for concurrent use.
type DenialCache struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries *simplelru.LRU[DeniedCall, *entry]
}

type entry struct {
	checked        enforce.Result
	asked, replied time.Time
	last           time.Time // when the caller last called
	denials        int       // in a row
	setVersion     int64
}

// NewDenialCache returns an empty DenialCache whose answers hold for the lifetime; 0
// makes it one that remembers nothing.
func NewDenialCache(lifetime time.Duration, now func() time.Time) *DenialCache {
	entries, _ := simplelru.NewLRU[DeniedCall, *entry](maxEntries, nil) // fails for a size below 1 alone
	return &DenialCache{lifetime: lifetime, now: now, entries: entries}
}

// Find returns the answer to a call that is known to be denied still, with its times as
// they are now.
func (c *DenialCache) Find(call DeniedCall) (enforce.Result, bool) {
	if c.lifetime == 0 {
		return enforce.Result{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found := c.entries.Get(call.alike())
	if !found || e.denials < repeatAfter || e.setVersion != call.SetVersion {
		return enforce.Result{}, false
	}
	now := c.now()
	// The server decided after it was asked, so its instant comes no earlier than this.
	if store.ElapsedAtMost(e.asked, now) >= min(c.lifetime, e.checked.RetryAfter()) {
		return enforce.Result{}, false
	}
	e.last = now
	return after(e.checked, store.ElapsedAtLeast(e.replied, now)), true
}

// Learn takes note of the store's answer to a call that was asked at this time.
func (c *DenialCache) Learn(call DeniedCall, asked time.Time, checked enforce.Result) {
	if c.lifetime == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !checked.Repeats {
		c.entries.Remove(call.alike())
		return
	}
	now := c.now()
	e, found := c.entries.Get(call.alike())
	if !found {
		e = &entry{}
		c.entries.Add(call.alike(), e)
	}
	if store.ElapsedAtMost(e.last, asked) >= c.lifetime {
		e.denials = 0
	}
	e.denials = min(e.denials+1, repeatAfter)
	e.checked, e.asked, e.replied, e.last, e.setVersion = checked, asked, now, now, call.SetVersion
}

// after is a denial as the store would give it some time later. The limits of others are
// left out: they are not denied by them.
func after(checked enforce.Result, passed time.Duration) enforce.Result {
	checked.Now = checked.Now.Add(passed)
	limits := make([]enforce.LimitState, 0, len(checked.Limits))
	for _, l := range checked.Limits {
		if l.Scope != policy.ScopeKey && l.Scope != policy.ScopeRoute {
			continue
		}
		l.Reset = max(0, l.Reset-passed)
		l.Next = max(0, l.Next-passed)
		l.RetryAfter = max(0, l.RetryAfter-passed)
		limits = append(limits, l)
	}
	checked.Limits = limits
	return checked
}
