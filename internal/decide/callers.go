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
	maxOthers  = 4_096 // counts of routes, addresses and the like
	// maxProofs of a caller: its secret, and the one before that is in its grace.
	maxProofs = 2
)

// Proof is the hash of the secret that a caller was known by; zero for one that others
// vouch for.
type Proof [sha256.Size]byte

// Callers remembers who was verified lately, and decides about their calls without the
// store. It is bounded, forgetting those first who did not call for longest, keeps no
// secret, and is safe for concurrent use.
type Callers struct {
	lifetime time.Duration
	now      func() time.Time

	mu     sync.Mutex
	known  *simplelru.LRU[string, *caller]
	others *simplelru.LRU[string, *limiter.Model]
}

// caller is what the store last said about a subject.
type caller struct {
	proofs []verified
	facts  facts
	limits []limiter.Limit // of the override or plan; nil when its mode is off
	mode   policy.Mode
	access *route.List // that the key opens; nil for all
	model  limiter.Model
}

// facts are compared to find out whether a check says anything new.
type facts struct {
	name, plan, group      string
	asked, source          string // asked is the plan that the call named
	setVersion, keyVersion int64
	unlimited              bool
}

type verified struct {
	proof Proof
	at    time.Time
	holds time.Duration // 0: as long as anything
}

// NewCallers returns an empty Callers in which a caller is known for the lifetime after
// its last check; with 0 no caller ever is.
func NewCallers(lifetime time.Duration, now func() time.Time) *Callers {
	known, _ := simplelru.NewLRU[string, *caller](maxCallers, nil)        // fails for a size below 1 alone
	others, _ := simplelru.NewLRU[string, *limiter.Model](maxOthers, nil) // as above
	return &Callers{lifetime: lifetime, now: now, known: known, others: others}
}

// Remember takes note of what the store said about a caller who may call.
func (c *Callers) Remember(call enforce.Call, proof Proof, checked enforce.Result) {
	if !checked.BannedUntil.IsZero() {
		c.Forget(call, proof)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known.Get(call.Subject)
	if !found {
		k = &caller{}
		c.known.Add(call.Subject, k)
	}
	k.verify(proof, c.now(), checked)
	k.learn(call, checked)
}

// Forget takes note that the store refuses a caller.
func (c *Callers) Forget(call enforce.Call, proof Proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.known.Peek(call.Subject)
	if !found {
		return
	}
	if i := k.index(proof); i >= 0 {
		k.proofs[i] = verified{} // no proof is zero at no time
	}
}

func (k *caller) index(proof Proof) int {
	found := -1
	for i := range k.proofs {
		if subtle.ConstantTimeCompare(k.proofs[i].proof[:], proof[:]) == 1 {
			found = i
		}
	}
	return found
}

// verify puts the proof in the place of the one that was good longest ago, if it is new.
func (k *caller) verify(proof Proof, now time.Time, checked enforce.Result) {
	v := verified{proof: proof, at: now}
	if until := checked.HoldsUntil(); !until.IsZero() {
		v.holds = until.Sub(checked.Now)
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

// learn does nothing on the usual check, which says nothing new.
func (k *caller) learn(call enforce.Call, checked enforce.Result) {
	own := 0
	for _, l := range checked.Limits {
		if l.Scope == policy.ScopeKey {
			own++
		}
	}
	f := facts{
		checked.Name, checked.Plan, checked.Group, call.Plan, checked.Source,
		checked.SetVersion, checked.KeyVersion, own == 0,
	}
	if k.facts == f {
		return
	}
	k.facts, k.mode, k.limits, k.access = f, policy.Off, nil, checked.Access
	for _, l := range checked.Limits {
		if l.Scope == policy.ScopeKey {
			if k.limits = append(k.limits, l.Limit); k.mode == policy.Off || !l.Limit.Shadow {
				k.mode = l.Mode
			}
		}
	}
}

// Knows reports whether the store vouched for the caller lately enough.
func (c *Callers) Knows(call enforce.Call, proof Proof) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(call, proof, c.now()) != nil
}

// find returns the caller if the store vouched for it lately enough.
func (c *Callers) find(call enforce.Call, proof Proof, now time.Time) *caller {
	k, found := c.known.Get(call.Subject)
	if !found || k.facts.asked != call.Plan {
		return nil
	}
	i := k.index(proof)
	if i < 0 || k.proofs[i].at.IsZero() {
		return nil
	}
	age := store.ElapsedAtMost(k.proofs[i].at, now)
	if age >= c.lifetime || k.proofs[i].holds > 0 && age >= k.proofs[i].holds {
		return nil
	}
	return k
}
