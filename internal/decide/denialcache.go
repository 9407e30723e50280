package decide

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/store"
)

// A denial is repeated from memory until its Retry-After, by the server's clock, and at
// most for the cache's lifetime, since an operator may edit or reset limits meanwhile, and
// other callers may give back what they took from shared ones. Then one call asks Valkey
// again. Only a limit that denied ten calls in a row in this process, each within the
// lifetime after the one before, repeats its denials: one of the caller's own to the
// caller, a shared one to every caller that it applies to and that Valkey verified lately.
// For them an edit applies at most a lifetime later, for all others to the next check.

const (
	maxEntries = 4_096
	// repeatAfter is the number of denials in a row after which a denial is repeated.
	repeatAfter = 10
)

// deniedBy is a limit on one count. With another number or window it may deny other calls.
type deniedBy struct {
	count string // key of the count
	limit limiter.Limit
}

func limitOf(l *enforce.LimitState) deniedBy { return deniedBy{l.CountKey, l.Step()} }

// denialCache remembers limits that denied calls. It forgets the least recently used one
// when it is full. It is safe for concurrent use.
type denialCache struct {
	lifetime time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries *simplelru.LRU[deniedBy, *denial]
}

type denial struct {
	cost    int64 // of the call that was denied; calls that cost less may pass
	wait    time.Duration
	server  time.Time            // the server's clock
	limits  []enforce.LimitState // those of the caller, or the shared one alone
	asked   time.Time            // when Valkey was asked
	replied time.Time            // when Valkey had replied
	last    time.Time            // when it denied a call last
	inARow  int                  // denials in a row, at most repeatAfter
}

// newDenialCache returns an empty denialCache that repeats denials for lifetime; with 0
// it remembers none.
func newDenialCache(lifetime time.Duration, now func() time.Time) *denialCache {
	entries, _ := simplelru.NewLRU[deniedBy, *denial](maxEntries, nil) // fails only below size 1
	return &denialCache{lifetime: lifetime, now: now, entries: entries}
}

// find returns the denial of a call by the limit that is known to deny it longest, with its
// times as of now. age is how old what is known of the caller is: it may have left its group
// or its plan since.
func (c *denialCache) find(t *enforce.Terms, age time.Duration) (enforce.Result, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var longest *denial
	for i := range t.Result.Limits {
		l := &t.Result.Limits[i]
		byRecord := l.Who == limits.EachGroup || l.Source != limits.FromPolicy
		if !l.Enforced() || byRecord && age >= c.lifetime {
			continue
		}
		d, found := c.entries.Get(limitOf(l))
		if !found || d.inARow < repeatAfter || l.Cost < d.cost {
			continue
		}
		// The server decided after it was asked, so the call is denied at least until then.
		if store.ElapsedAtMost(d.asked, now) >= min(c.lifetime, d.wait) {
			continue
		}
		if longest == nil || d.wait > longest.wait {
			longest = d
		}
	}
	if longest == nil {
		return enforce.Result{}, false
	}
	longest.last = now
	passed := store.ElapsedAtLeast(longest.replied, now)
	result := t.Result
	result.Now, result.Repeats, result.Limits = longest.server.Add(passed), true, nil
	for _, l := range t.Result.Limits { // as they apply to this call
		i := slices.IndexFunc(longest.limits, func(known enforce.LimitState) bool {
			return limitOf(&known) == limitOf(&l)
		})
		if i < 0 || l.CountsOnly {
			continue
		}
		known := longest.limits[i]
		known.Applied = l.Applied
		known.Next, known.RetryAfter = max(0, known.Next-passed), max(0, known.RetryAfter-passed)
		result.Limits = append(result.Limits, known)
	}
	return result, true
}

// learn records what limits answered to a call. asked is when Valkey was asked.
func (c *denialCache) learn(asked time.Time, result enforce.Result) {
	if c.lifetime == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := 0
	for own < len(result.Limits) && !result.Limits[own].Shared() {
		own++
	}
	for i := range result.Limits {
		l := &result.Limits[i]
		switch {
		case l.Unread || !l.Enforced():
		case !l.Denies() || !result.Repeats:
			c.entries.Remove(limitOf(l))
		case l.Shared():
			c.learnDenial(asked, result, l, result.Limits[i:i+1])
		default:
			c.learnDenial(asked, result, l, result.Limits[:own])
		}
	}
}

func (c *denialCache) learnDenial(asked time.Time, result enforce.Result, l *enforce.LimitState,
	states []enforce.LimitState) {
	d, found := c.entries.Get(limitOf(l))
	if !found {
		d = &denial{}
		c.entries.Add(limitOf(l), d)
	}
	inARow := d.inARow
	if store.ElapsedAtMost(d.last, asked) >= c.lifetime {
		inARow = 0
	}
	wait := l.RetryAfter
	if l.Never {
		wait = c.lifetime
	}
	now := c.now()
	*d = denial{cost: l.Cost, wait: wait, server: result.Now, limits: states, asked: asked, replied: now,
		last: now, inARow: min(inARow+1, repeatAfter)}
}
