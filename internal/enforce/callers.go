package enforce

import (
	"encoding/binary"
	"math"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce/compiled"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store"
)

const (
	// recentlyAllowed is how long after an allowed call the caller's next one is expected
	// to be allowed. Busy callers call more often, so their checks take one round trip.
	// A revoked or banned caller reaches shared limits at most once in each environment
	// that allowed it so recently: the denial ends that, and the cost is given back.
	recentlyAllowed = 10 * time.Second
	// maxRecent bounds recentCallers to about 1.5 MB.
	maxRecent = 4096
)

// recentCallers remembers callers whose last call this Checker allowed. Their checks send
// the steps on shared limits together with the caller's own step. It forgets the least
// recently used entry when it is full. It is safe for concurrent use.
type recentCallers struct {
	mu      sync.Mutex
	entries *simplelru.LRU[recentCaller, *recentCall]
}

// recentCaller identifies a caller and its credential.
type recentCaller struct {
	subject string
	secret  string // hash of the API key's secret; empty for other kinds
	plan    string // plan named by the call
	route   string // tag of the route, for its limits on the caller; empty for the plan's limits
}

// recentCall is what a Checker remembers of a caller's last allowed call.
type recentCall struct {
	version   int64         // version of the policy set
	began     time.Time     // when the check began
	validFor  time.Duration // until the record's next change, such as its expiry; 0 for no limit
	remaining int64         // least that remains of the caller's own enforced limits
	group     keyGroup      // group of the caller
}

func newRecentCallers() *recentCallers {
	entries, _ := simplelru.NewLRU[recentCaller, *recentCall](maxRecent, nil) // fails only below size 1
	return &recentCallers{entries: entries}
}

func recentCallerOf(call Call, own step) recentCaller {
	return recentCaller{subject: call.Subject, secret: own.args[0], plan: call.Plan}
}

// allow reports whether a call of the caller is expected to pass its own limits, and the
// caller's group. It deducts the rule's cost from what remains in the entry.
func (r *recentCallers) allow(caller recentCaller, rule *compiled.Route, set *compiled.Set,
	now time.Time) (keyGroup, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.entries.Get(caller)
	if !found || !last.allows(rule.Cost, set.Version, now) {
		return keyGroup{}, false
	}
	if len(rule.PerKeyEntry) > 0 {
		caller.route = rule.Tag
		routed, found := r.entries.Get(caller)
		if !found || !routed.allows(rule.Cost, set.Version, now) {
			return keyGroup{}, false
		}
		routed.remaining -= rule.Cost
	}
	last.remaining -= rule.Cost // for concurrent calls
	return last.group, true
}

func (c *recentCall) allows(cost, version int64, now time.Time) bool {
	age := store.ElapsedAtMost(c.began, now)
	return c.version == version && cost <= c.remaining && age < recentlyAllowed &&
		(c.validFor == 0 || age < c.validFor)
}

// learn records the result of a check that began at a time of the Checker's clock.
func (r *recentCallers) learn(caller recentCaller, rule *compiled.Route, began time.Time, c *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.Allowed {
		r.entries.Remove(caller)
		if caller.route = rule.Tag; len(rule.PerKeyEntry) > 0 {
			r.entries.Remove(caller)
		}
		return
	}
	last := recentCall{version: c.SetVersion, began: began, remaining: c.leastRemaining(policy.ScopeKey),
		group: c.group}
	if until := c.HoldsUntil(); !until.IsZero() {
		last.validFor = until.Sub(c.Now)
	}
	r.put(caller, last)
	if len(rule.PerKeyEntry) > 0 && !c.free {
		caller.route, last.remaining = rule.Tag, c.leastRemaining(policy.ScopeRoute)
		r.put(caller, last)
	}
}

func (r *recentCallers) put(caller recentCaller, last recentCall) {
	entry, found := r.entries.Get(caller)
	if !found {
		entry = new(recentCall)
		r.entries.Add(caller, entry)
	}
	*entry = last
}

// leastRemaining returns the least that remains of the enforced limits of a scope;
// math.MaxInt64 if there are none.
func (c *Result) leastRemaining(scope string) int64 {
	least := int64(math.MaxInt64)
	for _, l := range c.Limits {
		if l.Scope == scope && l.Mode == policy.Enforce {
			least = min(least, l.Remaining)
		}
	}
	return least
}

// maxKnown bounds knownCallers to about 2 MB.
const maxKnown = 4096

// knownCallers remembers what find.lua last returned about the record and limits of
// callers with an API key. The next check sends it back, so that the script reads less
// and replies with less. The script compares it byte by byte with the record and the copy
// of the plans, so an edit applies to the next check. knownCallers forgets the least
// recently used caller when it is full. It is safe for concurrent use.
type knownCallers struct {
	entries *lru.Cache[string, *knownCaller] // by subject
}

// knownCaller is what find.lua returned about a caller.
type knownCaller struct {
	version int64    // version of the policy set
	hash    string   // hash of the secret
	public  []byte   // public in the reply of find.lua
	args    []string // ARGV[6] to ARGV[9] of find.lua
}

func newKnownCallers() *knownCallers {
	entries, _ := lru.New[string, *knownCaller](maxKnown) // fails only below size 1
	return &knownCallers{entries: entries}
}

// find returns the caller with this hash under a version of the policy set, or nil.
func (k *knownCallers) find(subject, hash string, version int64) *knownCaller {
	known, found := k.entries.Get(subject)
	if !found || known.version != version || known.hash != hash {
		return nil
	}
	return known
}

// maxInstant is later than any time of the server, in microseconds since 1970.
const maxInstant = 1<<53 - 1

// learn remembers the part public of a reply about a caller, after parsePublic. A
// caller with a ban or an override is not remembered, since its limits change when that
// ends. The script compares the group with the record too.
func (k *knownCallers) learn(subject, hash string, version int64, public []byte) {
	const times, overrideAt, nameAt = 4, 15, 13 // overrideAt has the length of the key's own
	record := public[times+policyset.TimesLen:]
	end := policyset.PublicLen + int(binary.BigEndian.Uint16(record[nameAt:]))
	override := binary.BigEndian.Uint16(record[overrideAt:])
	group, entry, _ := groupIn(record[end], record[end+1:])
	expires, banned := policyset.TimeAt(public[times+7:]), policyset.TimeAt(public[times+14:])
	off := policyset.Modes[entry[0]-1] == policy.Off
	if hash == "" || override > 0 || record[end]&ofGroup != 0 || !banned.IsZero() || off ||
		int64(binary.BigEndian.Uint32(public)) != version {
		return
	}
	until := int64(maxInstant)
	if !expires.IsZero() {
		until = expires.UnixMicro()
	}
	fields := string(public[times : times+policyset.TimesLen+end])
	if group != "" {
		fields += policyset.GroupText(group) // the description follows the name
	}
	head := string(append([]byte{policyset.CopyFormat}, public[:times]...))
	args := []string{fields, string(entry[3:]), head, strconv.FormatInt(until, 10)}
	k.entries.Add(subject, &knownCaller{version: version, hash: hash, public: public, args: args})
}
