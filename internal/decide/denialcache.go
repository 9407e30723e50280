package decide

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce"
	"tidegate/internal/store"
)

// A denial is repeated from memory until its Retry-After, by the server's clock, and at
// most for the cache's lifetime, since an operator may edit or reset limits meanwhile, and
// other callers may give back what they took from shared ones. Then one call asks Valkey
// again. Only callers that were denied 10 times in a row by this process, each time within
// the lifetime after the call before, get repeated denials. For them an edit applies at
// most a lifetime later, for all others to the next check.
//
// A denial by a shared limit is remembered for the limit too. After 10 such denials in a
// row, it is repeated for every caller that the limit applies to and that Valkey verified
// lately. Such a denial has that limit alone.

const (
	maxEntries = 4_096
	// repeatAfter is the number of denials in a row after which a denial is repeated.
	repeatAfter = 10
)

// deniedCall is the key of a denialCache: calls that differ in it may get different
// denials. For a shared limit it has a Scope, and only what callers of the limit have in
// common.
type deniedCall struct {
	Subject    string
	Proof      secretHash
	Plan       string // plan that the call names, or that has the limit of a group
	Rule       string
	Cost       int64
	SetVersion int64

	Scope   string       // scope of the shared limit; empty for a caller
	Network netip.Prefix // client's network, of denials by limits on each address
	Group   string       // of a limit on each group
}

// withoutVersion returns the call for any version of the policy set. The cache has at
// most one denial for it.
func (c deniedCall) withoutVersion() deniedCall {
	c.SetVersion = 0
	return c
}

// denialCache remembers denials. It forgets the least recently used one when it is full.
// It is safe for concurrent use.
type denialCache struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries *simplelru.LRU[deniedCall, *denial]
}

type denial struct {
	result     enforce.Result
	asked      time.Time // when Valkey was asked
	replied    time.Time // when Valkey had replied
	last       time.Time // when the caller last called
	inARow     int       // denials in a row, at most repeatAfter
	setVersion int64
}

// newDenialCache returns an empty denialCache that repeats denials for lifetime; with 0
// it remembers none.
func newDenialCache(lifetime time.Duration, now func() time.Time) *denialCache {
	entries, _ := simplelru.NewLRU[deniedCall, *denial](maxEntries, nil) // fails only below size 1
	return &denialCache{lifetime: lifetime, now: now, entries: entries}
}

// find returns the denial of a call that is known to be still denied, with its times as
// of now.
func (c *denialCache) find(call deniedCall) (enforce.Result, bool) {
	if c.lifetime == 0 {
		return enforce.Result{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d, found := c.entries.Get(call.withoutVersion())
	if !found || d.inARow < repeatAfter || d.setVersion != call.SetVersion {
		return enforce.Result{}, false
	}
	now := c.now()
	// The server decided after it was asked, so the call is denied at least until then.
	if store.ElapsedAtMost(d.asked, now) >= min(c.lifetime, d.result.RetryAfter()) {
		return enforce.Result{}, false
	}
	d.last = now
	return after(d.result, store.ElapsedAtLeast(d.replied, now)), true
}

// standing reports whether the last answer was a denial whose Retry-After has not passed.
func (c *denialCache) standing(call deniedCall) bool {
	if c.lifetime == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d, found := c.entries.Get(call.withoutVersion())
	return found && d.setVersion == call.SetVersion &&
		store.ElapsedAtMost(d.asked, c.now()) < d.result.RetryAfter()
}

// learn records Valkey's answer to a call, or that of a shared limit. asked is when
// Valkey was asked.
func (c *denialCache) learn(call deniedCall, asked time.Time, result enforce.Result) {
	if c.lifetime == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !result.Repeats {
		c.entries.Remove(call.withoutVersion())
		return
	}
	now := c.now()
	d, found := c.entries.Get(call.withoutVersion())
	if !found {
		d = &denial{}
		c.entries.Add(call.withoutVersion(), d)
	}
	inARow := d.inARow
	if store.ElapsedAtMost(d.last, asked) >= c.lifetime {
		inARow = 0
	}
	*d = denial{result: result, asked: asked, replied: now, last: now,
		inARow: min(inARow+1, repeatAfter), setVersion: call.SetVersion}
}

// after returns a denial as Valkey would make it some time later. It leaves out shared
// limits that did not deny the call, since they may have changed.
func after(result enforce.Result, passed time.Duration) enforce.Result {
	result.Now = result.Now.Add(passed)
	limits := make([]enforce.LimitState, 0, len(result.Limits))
	for _, l := range result.Limits {
		if l.Shared() && !l.Denies() {
			continue
		}
		l.Reset = max(0, l.Reset-passed)
		l.Next = max(0, l.Next-passed)
		l.RetryAfter = max(0, l.RetryAfter-passed)
		limits = append(limits, l)
	}
	result.Limits = limits
	return result
}

// While made-up keys arrive, Valkey is asked to look an unfamiliar key up before it is
// checked: a read costs a small part of a check. So nobody is refused without a look-up.
const (
	// UnknownWindow is how long unknown keys are counted together.
	UnknownWindow = 5 * time.Second
	// MaxUnknown is the number of unknown keys within UnknownWindow from which on
	// unfamiliar keys are looked up first.
	MaxUnknown = 10
)

// unknownKeys counts the keys that Valkey did not know. It is safe for concurrent use.
type unknownKeys struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	count int
}

// many reports whether many unknown keys arrived within UnknownWindow.
func (u *unknownKeys) many() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count >= MaxUnknown && store.ElapsedAtMost(u.since, u.now()) < UnknownWindow
}

// learn records that Valkey, asked at a time, did not know a key.
func (u *unknownKeys) learn(asked time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count == 0 || store.ElapsedAtMost(u.since, asked) >= UnknownWindow {
		u.since, u.count = asked, 0
	}
	u.count++
}
