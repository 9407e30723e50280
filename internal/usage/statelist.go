package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

// StateList is a list of registered subjects that may be in a state until some time. It
// lags and errs: who looks must ask what a call would get. What a subject's own calls
// showed repairs it, and what is past leaves it.
type StateList int

// The lists. Each keeps 2,048 subjects a bucket, those whose times are last.
const (
	OverLimit StateList = 1 + iota // denied by limits
	Banned
	NearLimit // with a limit that is nearly used up
)

const (
	// leastDenied is how long a subject must be denied to be listed.
	leastDenied = time.Second
	// leastSlack is how much longer than needed a subject is in NearLimit at least, so
	// that calls that follow need not list it again. A quarter of what is needed is more
	// for long windows.
	leastSlack = time.Minute
	// maxNear is how many subjects of NearLimit a Recorder remembers, and maxNearWaiting
	// how many of them wait for a flush.
	maxNear        = 4096
	maxNearWaiting = MaxSubjects / 2
	// nearFor is how long a Recorder relies on what it listed in NearLimit, since Valkey
	// may lose it.
	nearFor = 10 * time.Minute
)

func stateListName(b keyspace.Bucket, list StateList) string {
	names := [...]string{OverLimit: "usage-blocked", Banned: "usage-banned", NearLimit: "usage-near"}
	return b.Name(names[list])
}

// listed is a subject's place in a list.
type listed struct {
	id   string
	list StateList
}

// listedSubject is a place with its time in milliseconds since 1970.
type listedSubject struct {
	listed
	until int64
}

// listDenied lists a registered subject that is denied until a time that is not near.
func (p *pending) listDenied(o Outcome) {
	if !o.Registered || o.DeniedUntil.Sub(o.Time) < leastDenied || !validID(o.Subject) {
		return
	}
	list := OverLimit
	if o.Denial != nil && o.Denial.Cause == cause.Ban {
		list = Banned
	}
	p.addListed(listedSubject{listed{o.Subject, list}, o.DeniedUntil.UnixMilli()})
}

// listNear lists a registered subject that nearly used up a limit, unless the list has it
// for long enough.
func (r *Recorder) listNear(o Outcome) {
	if !o.Registered || o.NearUntil.IsZero() || !validID(o.Subject) ||
		o.NearUntil.UnixMilli() <= r.near[o.Subject] {
		return
	}
	slack := max(leastSlack, o.NearUntil.Sub(o.Time)/4)
	r.pending.addListed(listedSubject{listed{o.Subject, NearLimit}, o.NearUntil.Add(slack).UnixMilli()})
}

func (p *pending) addListed(s listedSubject) {
	most := MaxSubjects
	if s.list == NearLimit {
		most = maxNearWaiting
	}
	if _, known := p.listed[s.listed]; !known && len(p.listed) >= most {
		return
	}
	if p.listed == nil {
		p.listed = map[listed]int64{}
	}
	p.listed[s.listed] = s.until
}

// packListed sorts listed subjects into parcels, in order of their slots.
func packListed(waiting map[listed]int64) []parcel {
	all := make([]listedSubject, 0, len(waiting))
	for place, until := range waiting {
		all = append(all, listedSubject{place, until})
	}
	slices.SortFunc(all, func(a, b listedSubject) int {
		return cmp.Or(cmp.Compare(keyspace.BucketOf(a.id), keyspace.BucketOf(b.id)),
			cmp.Compare(a.id, b.id), cmp.Compare(a.list, b.list))
	})
	var parcels []parcel
	for _, s := range all {
		last := len(parcels) - 1
		if b := keyspace.BucketOf(s.id); last < 0 || parcels[last].bucket != b {
			parcels, last = append(parcels, parcel{bucket: b}), last+1
		}
		parcels[last].listed = append(parcels[last].listed, s)
	}
	return parcels
}

// stateListKeys and stateListArgs are what statelist.lua takes.
func stateListKeys(b keyspace.Bucket) []string {
	return []string{stateListName(b, OverLimit), stateListName(b, Banned), stateListName(b, NearLimit)}
}

func stateListArgs(now time.Time, subjects []listedSubject) []string {
	args := append(make([]string, 0, 1+3*len(subjects)), strconv.FormatInt(now.UnixMilli(), 10))
	for _, s := range subjects {
		args = append(args, strconv.Itoa(int(s.list)), strconv.FormatInt(s.until, 10), s.id)
	}
	return args
}

// acknowledgeListed is acknowledge of listed subjects. They are no calls: one that was
// perhaps not listed is listed by its next call.
func (r *Recorder) acknowledgeListed(p *parcel, result valkey.ValkeyResult) {
	err := result.Error()
	unknown := lua.Unknown(err)
	r.withoutStateScript[p.bucket] = unknown
	for _, s := range p.listed {
		switch {
		case err == nil && s.list == NearLimit:
			r.rememberNear(s)
		case unknown || notExecuted(err):
			if _, newer := r.pending.listed[s.listed]; !newer {
				r.pending.addListed(s)
			}
		}
	}
}

func (r *Recorder) rememberNear(s listedSubject) {
	if len(r.near) >= maxNear {
		r.near = nil // whoever calls is listed again
	}
	if r.near == nil {
		r.near = map[string]int64{}
	}
	r.near[s.id] = s.until
}

// forgetNear forgets after nearFor what was listed in NearLimit.
func (r *Recorder) forgetNear(now time.Time) {
	if age := now.Sub(r.nearSince); age < 0 || age >= nearFor {
		r.near, r.nearSince = nil, now
	}
}

// AddToStateList returns the commands that list a subject until a time, for a ban that an
// operator makes. What check functions add keeps the list short.
func AddToStateList(client valkey.Client, list StateList, id string, until time.Time) valkey.Commands {
	name, ms := stateListName(keyspace.BucketOf(id), list), until.UnixMilli()
	return valkey.Commands{
		client.B().Zadd().Key(name).ScoreMember().ScoreMember(float64(ms), id).Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Nx().Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Gt().Build(),
	}
}

// firstBuckets is how many buckets InState reads at first; four times as many each time
// that they have too few subjects.
const firstBuckets = 4

// InState returns up to count subjects of a list that follow one, in an order that does
// not change while they stay in it: by bucket, then by id. more says that others follow.
func (r *Reader) InState(
	ctx context.Context, list StateList, after string, now time.Time, count int,
) (ids []string, more bool, err error) {
	first := 0
	if after != "" {
		first = int(keyspace.BucketOf(after))
	}
	least := "(" + strconv.FormatInt(now.UnixMilli(), 10)
	for each := firstBuckets; first < keyspace.Buckets && len(ids) <= count; each *= 4 {
		end := min(first+each, keyspace.Buckets)
		commands := make(valkey.Commands, 0, end-first)
		for b := first; b < end; b++ {
			name := stateListName(keyspace.Bucket(b), list)
			commands = append(commands,
				r.client.B().Zrangebyscore().Key(name).Min(least).Max("+inf").Build())
		}
		for i, result := range r.client.DoMulti(ctx, commands...) {
			found, err := result.AsStrSlice()
			if err != nil {
				return nil, false, fmt.Errorf("usage: list of a state: %w", err)
			}
			slices.Sort(found)
			if i == 0 && after != "" && keyspace.Bucket(first) == keyspace.BucketOf(after) {
				at, same := slices.BinarySearch(found, after)
				if same {
					at++
				}
				found = found[at:]
			}
			ids = append(ids, found...)
		}
		first = end
	}
	if len(ids) > count {
		return ids[:count], true, nil
	}
	return ids, first < keyspace.Buckets, nil
}
