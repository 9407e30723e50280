package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
)

// DeniedList is a list of registered subjects whose calls are denied until some time. It
// lags and errs: who looks must ask what a call would get. What a subject's own calls
// showed repairs it, and what is past leaves it.
type DeniedList int

// The lists. Each keeps 2,048 subjects a bucket, those whose denials end last.
const (
	OverLimit DeniedList = 1 + iota
	Banned
)

// leastDenied is how long a subject must be denied to be listed.
const leastDenied = time.Second

func deniedName(b keyspace.Bucket, list DeniedList) string {
	if list == Banned {
		return b.Name("usage-banned")
	}
	return b.Name("usage-blocked")
}

// deniedSubject is a subject of a list, with the time in milliseconds since 1970.
type deniedSubject struct {
	id    string
	list  DeniedList
	until int64
}

// deny lists a registered subject that is denied until a time that is not near.
func (p *pending) deny(o Outcome) {
	if !o.Registered || o.DeniedUntil.Sub(o.Time) < leastDenied || !validID(o.Subject) {
		return
	}
	d := deniedSubject{o.Subject, OverLimit, o.DeniedUntil.UnixMilli()}
	if o.Denial != nil && o.Denial.Cause == cause.Ban {
		d.list = Banned
	}
	p.addDenied(d)
}

func (p *pending) addDenied(d deniedSubject) {
	if _, known := p.denied[d.id]; !known && len(p.denied) >= MaxSubjects {
		return
	}
	if p.denied == nil {
		p.denied = map[string]deniedSubject{}
	}
	p.denied[d.id] = d
}

// packDenied sorts denied subjects into parcels, in order of their slots.
func packDenied(denied map[string]deniedSubject) []parcel {
	all := slices.SortedFunc(maps.Values(denied), func(a, b deniedSubject) int {
		return cmp.Or(cmp.Compare(keyspace.BucketOf(a.id), keyspace.BucketOf(b.id)), cmp.Compare(a.id, b.id))
	})
	var parcels []parcel
	for _, d := range all {
		last := len(parcels) - 1
		if b := keyspace.BucketOf(d.id); last < 0 || parcels[last].bucket != b {
			parcels, last = append(parcels, parcel{bucket: b}), last+1
		}
		parcels[last].denied = append(parcels[last].denied, d)
	}
	return parcels
}

// deniedKeys and deniedArgs are what denied.lua takes.
func deniedKeys(b keyspace.Bucket) []string {
	return []string{deniedName(b, OverLimit), deniedName(b, Banned)}
}

func deniedArgs(now time.Time, denied []deniedSubject) []string {
	args := append(make([]string, 0, 1+3*len(denied)), strconv.FormatInt(now.UnixMilli(), 10))
	for _, d := range denied {
		args = append(args, strconv.Itoa(int(d.list)), strconv.FormatInt(d.until, 10), d.id)
	}
	return args
}

// acknowledgeDenied is acknowledge of denied subjects. They are no calls: one that was
// perhaps not listed is listed by its next denial.
func (r *Recorder) acknowledgeDenied(p *parcel, result valkey.ValkeyResult) {
	err := result.Error()
	unknown := isUnknownScript(err)
	r.withoutDeniedScript[p.bucket] = unknown
	if !unknown && !notExecuted(err) {
		return
	}
	for _, d := range p.denied {
		if _, newer := r.pending.denied[d.id]; !newer {
			r.pending.addDenied(d)
		}
	}
}

// ListDenied returns the commands that list a subject as denied until a time, for a ban
// that an operator makes. Denials keep the list short.
func ListDenied(client valkey.Client, list DeniedList, id string, until time.Time) valkey.Commands {
	name, ms := deniedName(keyspace.BucketOf(id), list), until.UnixMilli()
	return valkey.Commands{
		client.B().Zadd().Key(name).ScoreMember().ScoreMember(float64(ms), id).Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Nx().Build(),
		client.B().Pexpireat().Key(name).MillisecondsTimestamp(ms).Gt().Build(),
	}
}

// firstBuckets is how many buckets Denied reads at first; four times as many each time
// that they have too few subjects.
const firstBuckets = 4

// Denied returns up to count subjects of a list that follow one, in an order that does
// not change while they stay denied: by bucket, then by id. more says that others follow.
func (r *Reader) Denied(
	ctx context.Context, list DeniedList, after string, now time.Time, count int,
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
			name := deniedName(keyspace.Bucket(b), list)
			commands = append(commands,
				r.client.B().Zrangebyscore().Key(name).Min(least).Max("+inf").Build())
		}
		for i, result := range r.client.DoMulti(ctx, commands...) {
			found, err := result.AsStrSlice()
			if err != nil {
				return nil, false, fmt.Errorf("usage: denied: %w", err)
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
