package decide

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store"
)

const (
	maxCallers = 10_000
	maxOthers  = 4_096 // states of routes, addresses and other subjects
	// maxProofs is the number of proofs of a caller: its secret, and the one before the
	// last rotation.
	maxProofs = 2
)

// secretHash is the hash of the API key's secret; zero for a caller without an API key.
type secretHash [sha256.Size]byte

// callers remembers recently verified callers, and decides about their calls while Valkey
// is unavailable. It forgets the least recently used caller when it is full, stores no
// secret, and is safe for concurrent use.
type callers struct {
	lifetime time.Duration
	now      func() time.Time

	mu     sync.Mutex
	known  *simplelru.LRU[string, *caller]        // by subject
	others *simplelru.LRU[string, *limiter.Model] // by name of the state
}

// caller is what Valkey last returned about a subject.
type caller struct {
	proofs []verified
	facts  facts
	limits []limiter.Limit // limits of the override or plan; nil if their mode is off
	mode   policy.Mode
	access *route.List // routes that the key opens; nil for all
	model  limiter.Model
}

// facts are what determines a caller's limits. While they are the same, a check brings
// nothing new.
type facts struct {
	name, plan, group      string
	namedPlan              string // plan that the call named
	source                 string
	setVersion, keyVersion int64
	unlimited              bool
}

// verified is a proof that Valkey accepted.
type verified struct {
	proof    secretHash
	at       time.Time     // when the check began
	validFor time.Duration // until the caller's record changes without an edit; 0 for no limit
}

// newCallers returns an empty cache that remembers a caller for lifetime after its last
// check; with lifetime 0 it knows none.
func newCallers(lifetime time.Duration, now func() time.Time) *callers {
	known, _ := simplelru.NewLRU[string, *caller](maxCallers, nil)        // fails only below size 1
	others, _ := simplelru.NewLRU[string, *limiter.Model](maxOthers, nil) // fails only below size 1
	return &callers{lifetime: lifetime, now: now, known: known, others: others}
}

// remember records Valkey's result for a caller that may call, and forgets a banned one.
// asked is when the check began.
func (c *callers) remember(call enforce.Call, proof secretHash, asked time.Time, result enforce.Result) {
	if !result.BannedUntil.IsZero() {
		c.forget(call, proof)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known.Get(call.Subject)
	if !found {
		k = &caller{}
		c.known.Add(call.Subject, k)
	}
	k.verify(proof, asked, result)
	k.learn(call, result)
}

// forget records that Valkey refuses a caller. An address that was never known is added,
// since openAddress admits those that were not refused.
func (c *callers) forget(call enforce.Call, proof secretHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known.Peek(call.Subject)
	if !found {
		if call.Kind == policy.Address {
			c.known.Add(call.Subject, &caller{proofs: []verified{{}}})
		}
		return
	}
	if i := k.index(proof); i >= 0 {
		k.proofs[i] = verified{} // find ignores proofs without a time
	}
}

// index returns the index of a proof, or -1. It compares in constant time.
func (k *caller) index(proof secretHash) int {
	found := -1
	for i := range k.proofs {
		if subtle.ConstantTimeCompare(k.proofs[i].proof[:], proof[:]) == 1 {
			found = i
		}
	}
	return found
}

// verify records a proof. A new proof replaces the one that was verified longest ago.
func (k *caller) verify(proof secretHash, asked time.Time, result enforce.Result) {
	v := verified{proof: proof, at: asked}
	if until := result.HoldsUntil(); !until.IsZero() {
		v.validFor = until.Sub(result.Now)
	}
	i := k.index(proof)
	switch {
	case i >= 0:
	case len(k.proofs) < maxProofs:
		k.proofs, i = append(k.proofs, v), len(k.proofs)
	case k.proofs[0].at.Before(k.proofs[1].at):
		i = 0
	default:
		i = 1
	}
	k.proofs[i] = v
}

// learn records the limits in a result. Usually the facts are the same as before, and
// learn only compares them.
func (k *caller) learn(call enforce.Call, result enforce.Result) {
	own := 0
	for _, l := range result.Limits {
		if l.Scope == policy.ScopeKey {
			own++
		}
	}
	f := facts{
		result.Name, result.Plan, result.Group, call.Plan, result.Source,
		result.SetVersion, result.KeyVersion, own == 0,
	}
	if k.facts == f {
		return
	}
	k.facts, k.mode, k.limits, k.access = f, policy.Off, nil, result.Access
	for _, l := range result.Limits {
		if l.Scope == policy.ScopeKey {
			if k.limits = append(k.limits, l.Limit); k.mode == policy.Off || !l.Limit.Shadow {
				k.mode = l.Mode
			}
		}
	}
}

// knows reports whether Valkey verified the caller within the lifetime.
func (c *callers) knows(call enforce.Call, proof secretHash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, _ := c.find(call, proof, c.now())
	return k != nil
}

// find returns the caller if Valkey verified it within the lifetime, and how long ago at
// most; nil otherwise.
func (c *callers) find(call enforce.Call, proof secretHash, now time.Time) (*caller, time.Duration) {
	k, found := c.known.Get(call.Subject)
	if !found || k.facts.namedPlan != call.Plan {
		return nil, 0
	}
	i := k.index(proof)
	if i < 0 || k.proofs[i].at.IsZero() {
		return nil, 0
	}
	age := store.ElapsedAtMost(k.proofs[i].at, now)
	if age >= c.lifetime || k.proofs[i].validFor > 0 && age >= k.proofs[i].validFor {
		return nil, 0
	}
	return k, age
}

// openAddress returns an address that find does not know, if the plan of addresses is open:
// it has no secret to verify. It returns nil if Valkey refused the address, or its record
// has changed since Valkey read it.
func (c *callers) openAddress(call enforce.Call, set *policy.Set, now time.Time) *caller {
	plan, found := set.Plan(set.AddressPlan)
	if call.Kind != policy.Address || !found || plan.Degraded != policy.Open {
		return nil
	}
	k, found := c.known.Peek(call.Subject)
	if !found {
		return &caller{facts: facts{plan: plan.Name, source: "plan"}}
	}
	last := k.proofs[0]
	if last.at.IsZero() || last.validFor > 0 && store.ElapsedAtMost(last.at, now) >= last.validFor {
		return nil
	}
	return k
}
