package enforce

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/policy"
	"tidegate/internal/store"
)

const (
	// recentlyAllowed is how long a caller counts as one who may call after a call that
	// was allowed. A caller at work calls more often than that, so its checks take one
	// round trip. A revoked or banned one reaches shared limits once at most in each
	// environment that allowed it so lately: the denial ends that, and what the call took
	// is given back.
	recentlyAllowed = 10 * time.Second
	// maxRecent bounds recentCallers to about 1.5 MB.
	maxRecent = 4096
)

// recentCallers remembers callers whose last call this Checker allowed. Their checks send
// the steps on shared limits along with the caller's own step. When it is full, the
// caller who has not called for longest is forgotten. It is safe for concurrent use.
type recentCallers struct {
	mu      sync.Mutex
	entries *simplelru.LRU[recentCaller, *recentCall]
}

// recentCaller names a caller and what it proved itself with.
type recentCaller struct {
	subject string
	secret  string // hash of the API key's secret; empty for other kinds
	plan    string // that the call named
	route   string // tag of the route, for its limits on each caller; empty for the plan's
}

// recentCall is what the last allowed call of a caller said.
type recentCall struct {
	version int64         // of the Set
	asked   time.Time     // when the call was made
	holds   time.Duration // until the key expires or the like; 0 when nothing is to come
	left    int64         // what remains of the caller's own enforced limits
	group   keyGroup      // of the caller
}

func newRecentCallers() *recentCallers {
	// fails for a size below 1 alone
	entries, _ := simplelru.NewLRU[recentCaller, *recentCall](maxRecent, nil)
	return &recentCallers{entries: entries}
}

func recentCallerOf(call Call, own step) recentCaller {
	return recentCaller{subject: call.Subject, secret: own.args[0], plan: call.Plan}
}

// allow reports whether the caller may be expected to pass its own limits with this cost,
// and in which group.
func (r *recentCallers) allow(who recentCaller, rule *compiled.Route, set *compiled.Set,
	now time.Time) (keyGroup, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.entries.Get(who)
	if !found || !last.allows(rule.Cost, set.Version, now) {
		return keyGroup{}, false
	}
	if len(rule.PerKeyEntry) > 0 {
		who.route = rule.Tag
		routed, found := r.entries.Get(who)
		if !found || !routed.allows(rule.Cost, set.Version, now) {
			return keyGroup{}, false
		}
		routed.left -= rule.Cost
	}
	last.left -= rule.Cost // a call at the same time finds less
	return last.group, true
}

func (c *recentCall) allows(cost, version int64, now time.Time) bool {
	age := store.ElapsedAtMost(c.asked, now)
	return c.version == version && cost <= c.left && age < recentlyAllowed && (c.holds == 0 || age < c.holds)
}

// learn records what came of a call that was made at a time of the Checker's clock.
func (r *recentCallers) learn(who recentCaller, rule *compiled.Route, asked time.Time, c *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.Allowed {
		r.entries.Remove(who)
		if who.route = rule.Tag; len(rule.PerKeyEntry) > 0 {
			r.entries.Remove(who)
		}
		return
	}
	last := recentCall{version: c.SetVersion, asked: asked, left: c.ownLeft(policy.ScopeKey),
		group: c.group}
	if until := c.HoldsUntil(); !until.IsZero() {
		last.holds = until.Sub(c.Now)
	}
	r.put(who, last)
	if len(rule.PerKeyEntry) > 0 && !c.free {
		who.route, last.left = rule.Tag, c.ownLeft(policy.ScopeRoute)
		r.put(who, last)
	}
}

func (r *recentCallers) put(who recentCaller, last recentCall) {
	entry, found := r.entries.Get(who)
	if !found {
		entry = new(recentCall)
		r.entries.Add(who, entry)
	}
	*entry = last
}

// ownLeft is the least that remains of the enforced limits of a scope.
func (c *Result) ownLeft(scope string) int64 {
	left := int64(math.MaxInt64)
	for _, l := range c.Limits {
		if l.Scope == scope && l.Mode == policy.Enforce {
			left = min(left, l.Remaining)
		}
	}
	return left
}
