package enforce

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/cause"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/route"
	"tidegate/internal/store"
)

// maxCallers bounds the callers that a Checker remembers, to some 20 MB.
const maxCallers = 10_000

// callers remembers what Valkey last said of callers: their records, and whether their last
// call was allowed. A check sends the record back, and the script compares it with the
// stored one, so an edit applies to the next check. The least recently used caller is
// forgotten when it is full. No secret is stored. It is safe for concurrent use.
type callers struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, *caller] // by subject
}

func newCallers() *callers {
	known, _ := simplelru.NewLRU[string, *caller](maxCallers, nil) // fails only below size 1
	return &callers{known: known}
}

// caller is what is known of one subject. What follows last changes.
type caller struct {
	record  string // as stored; empty for none; never as stored with a mark
	key     policy.Key
	hashes  policyset.Secrets
	problem error       // why the record cannot be read; nil if it can
	opens   *route.List // routes that the key opens; nil for all
	marked  bool        // it has a mark that refuses it, whatever its record says
	until   time.Time   // end of the ban that the mark is; zero for a revocation

	now time.Time // the server's clock when the record was read

	last atomic.Pointer[standing] // of the last call

	mu        sync.Mutex
	confirmed time.Time // when the environment last asked, and the record was this one
	allowed   recent
}

// recent is what a Checker remembers of a caller's last allowed call.
type recent struct {
	version   int64     // of the policy set
	asked     time.Time // when the check began; zero if the last call was not allowed
	remaining int64     // least that remains of the caller's own enforced limits
}

// recentlyAllowed is how long after an allowed call the caller's next one is expected to
// be allowed. Busy callers call more often, so their checks take one round trip. A caller
// that was revoked or banned since reaches shared limits at most once in each environment
// that allowed it so recently: the denial ends that, and the cost is given back.
const recentlyAllowed = 10 * time.Second

func (all *callers) find(subject string) *caller {
	all.mu.Lock()
	defer all.mu.Unlock()
	k, _ := all.known.Get(subject)
	return k
}

// otherRecord is the record of a caller with a mark, so that the next check that finds no
// mark reads the record again.
const otherRecord = "marked"

// learn remembers what a script found of a subject, which was asked for at asked. A bucket
// that is lost has only a mark: what was known of the subject stays.
func (all *callers) learn(subject string, f *found, asked time.Time) *caller {
	k := &caller{record: f.record, now: f.now, confirmed: asked}
	if before := all.find(subject); f.mark != "" && f.policy == 0 && before != nil {
		k.key, k.hashes, k.problem = before.key, before.hashes, before.problem
	} else if f.record != "" {
		version, content := policyset.Stored(f.record)
		k.key, k.hashes, k.problem = policyset.DecodeRecord(subject, version, content)
	}
	if f.mark != "" {
		k.record, k.marked, k.until = otherRecord, true, f.markEnds()
	}
	if k.problem == nil && len(k.key.Opens) > 0 {
		k.opens, k.problem = route.NewList(k.key.Opens)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.known.Add(subject, k)
	return k
}

// confirm records that the stored record was this one when the environment asked.
func (k *caller) confirm(asked time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.confirmed = asked
}

// age returns how long ago the record was confirmed, at most.
func (k *caller) age(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return store.ElapsedAtMost(k.confirmed, now)
}

// expects reports whether a call is expected to pass the caller's own limits. It deducts
// the cost from what remains, for concurrent calls.
func (k *caller) expects(version, cost int64, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &k.allowed
	if r.asked.IsZero() || r.version != version || cost > r.remaining ||
		store.ElapsedAtMost(r.asked, now) >= recentlyAllowed {
		return false
	}
	r.remaining -= cost
	return true
}

// learnAllowed records the last call of the caller.
func (k *caller) learnAllowed(r recent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allowed = r
}

// standing is what the caller's record and the policy set say of its calls with a credential.
type standing struct {
	set       *compiled
	named     string // plan that the call names
	group     string // that the call names
	trusted   bool   // as in Call
	proof     [sha256.Size]byte
	refused   *policy.RefusedError // why the caller may not call; nil if it may
	oldSecret bool
	banned    time.Time // zero if it is not
	key       policy.Key
	plan      policy.Plan
	source    string // of the limits, as in policy.Effective
	router    *limits.Router
	// candidates are the limits that may apply to a call, those of the caller first.
	candidates []limits.Applied
	names      []string  // of the candidates' counts; empty for one that has a value of a call
	until      time.Time // when this may end without an edit; zero if never
	problem    error     // a mistake of the override; nil for none
}

// stand returns the standing of a call's caller.
func (k *caller) stand(set *compiled, call Call, proof [sha256.Size]byte) *standing {
	if s := k.last.Load(); s != nil && s.set == set && s.named == call.Plan && s.group == call.Group &&
		s.trusted == call.trusted &&
		s.proof == proof {
		return s
	}
	s := &standing{set: set, named: call.Plan, group: call.Group, trusted: call.trusted, proof: proof,
		key: k.key}
	if s.key.Version == 0 { // no record
		s.key.ID, s.key.Kind, s.key.Status = call.Subject, call.Kind, policy.Active
	}
	if s.key.Kind != policy.APIKey {
		s.key.Group = call.Group
	}
	k.judge(s, call)
	k.last.Store(s)
	return s
}

func (k *caller) judge(s *standing, call Call) {
	if k.until.After(s.key.Banned) {
		s.key.Banned = k.until
	}
	ends := func(t time.Time) {
		if t.After(k.now) && (s.until.IsZero() || t.Before(s.until)) {
			s.until = t
		}
	}
	for _, t := range []time.Time{s.key.Grace, s.key.Expires, s.key.Banned} {
		ends(t)
	}
	if s.refused, s.oldSecret = k.proves(call, s.proof); s.refused != nil {
		return
	}
	switch {
	case s.key.Status != policy.Active || k.marked && k.until.IsZero():
		s.refused = &policy.RefusedError{Cause: cause.Revoked, Verified: true}
	case !s.key.Expires.IsZero() && !s.key.Expires.After(k.now):
		s.refused = &policy.RefusedError{Cause: cause.Expired, Verified: true}
	default:
		s.plan, s.refused = s.set.planOf(&s.key, call.Plan)
	}
	if s.refused != nil {
		return
	}
	if s.key.Banned.After(k.now) {
		s.banned = s.key.Banned
	}
	s.key.Plan = s.plan.Name
	if s.key.Override != nil {
		ends(s.key.Override.Until)
	}
	if o, found := s.set.GroupOverrides[s.key.Group]; found {
		ends(o.Until)
	}
	var who limits.Caller
	who, _, s.source = s.set.CallerOf(s.key, k.now)
	s.router = s.set.router
	if slices.ContainsFunc(who.Override, limits.Limit.NamesPattern) {
		if s.router, s.problem = s.set.routerWith(who.Override); s.problem != nil {
			return
		}
	}
	s.candidates = s.set.language.Candidates(who)
	s.names = make([]string, len(s.candidates))
	for i, a := range s.candidates {
		if a.Who != limits.EachParam && a.Who != limits.CallerParam && a.Who != limits.CallerPattern {
			s.names[i] = a.Count.Name()
		}
	}
}

// proves returns why a call's secret is refused; nil if it is the key's. oldSecret says
// that it is the one before the last rotation.
func (k *caller) proves(call Call, proof [sha256.Size]byte) (_ *policy.RefusedError, oldSecret bool) {
	switch {
	case call.trusted:
		return nil, false
	case call.Kind != policy.APIKey && k.key.Kind == policy.APIKey: // its secret is asked for
		return &policy.RefusedError{Cause: cause.Unknown}, false
	case call.Kind != policy.APIKey:
		return nil, false
	}
	current := subtle.ConstantTimeCompare(k.hashes.Current[:], proof[:])
	previous := subtle.ConstantTimeCompare(k.hashes.Previous[:], proof[:])
	switch {
	case k.key.Version == 0 || current|previous == 0:
		return &policy.RefusedError{Cause: cause.Unknown}, false
	case current == 1:
		return nil, false
	case k.key.Status == policy.Active && !k.key.Grace.After(k.now):
		return &policy.RefusedError{Cause: cause.OldSecret, Verified: true}, false
	}
	return nil, true
}
