package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
)

// maxKinds is how many kinds of denials wait to be flushed at most. Denials beyond it
// are left out of the log.
const maxKinds = 256

// pendingKind is denials of a kind that wait to be flushed.
type pendingKind struct {
	denylog.Kind

	occurrences [denylog.MaxOccurrences]denylog.Occurrence
	used        int
}

// log takes a denial into the denial log.
func (p *pending) log(o Outcome, minute int64) {
	d := o.Denial
	if d == nil || d.Cause == 0 {
		return
	}
	k := denylog.Kind{
		Minute: minute, Registered: o.Registered, Subject: o.Subject, Cause: d.Cause, Plan: d.Plan,
		Limit: d.Limit, Rule: d.Rule, Method: d.Method, Path: d.Path, API: d.API, Stage: d.Stage,
		Group: d.Group,
	}
	p.addDenial(k, denylog.Occurrence{
		At: max(o.Time.UnixMilli(), 0) % (1000 * secondsPerHour), Calls: 1, RetryAfter: d.RetryAfter,
		Network: d.Network, Request: d.Request,
	})
}

// addDenial adds denials to their kind, or leaves them out.
func (p *pending) addDenial(k denylog.Kind, o denylog.Occurrence) {
	i, found := p.kindIndex[k]
	if !found {
		if len(p.kinds) == maxKinds || k.Subject != "" && !validID(k.Subject) {
			p.leaveOut(k, o.Calls)
			return
		}
		if p.kindIndex == nil {
			p.kindIndex = map[denylog.Kind]int{}
		}
		i = len(p.kinds)
		p.kinds, p.kindIndex[k] = append(p.kinds, pendingKind{Kind: k}), i
	}
	if e := &p.kinds[i]; e.used < denylog.MaxOccurrences {
		e.occurrences[e.used] = o
		e.used++
	} else {
		e.occurrences[e.used-1].Calls += o.Calls
	}
}

// leaveOut counts denials that are not in the log, in the fields of the refusals.
func (p *pending) leaveOut(k denylog.Kind, calls int64) {
	p.newest(refusals, k.Minute).tally[unlogged] += calls
	if !k.Registered || !validID(k.Subject) {
		return
	}
	if e := p.find(slot{refusals, k.Subject, k.Minute}, true); e != nil {
		e.tally[unlogged] += calls
	}
}

// refuse counts a refused credential: in all, and for a caller that proved its key.
func (p *pending) refuse(o Outcome, minute int64) {
	at := int(o.Denial.Cause - cause.Missing)
	p.newest(refusals, minute).tally[at]++
	if !o.Registered || !validID(o.Subject) {
		return
	}
	if e := p.find(slot{refusals, o.Subject, minute}, true); e != nil {
		e.tally[at]++
	}
	p.log(o, minute)
}

// packLog sorts kinds of denials into parcels, in order of their slots.
func packLog(kinds []pendingKind, totals keyspace.Bucket) []parcel {
	bucketOf := func(k *pendingKind) keyspace.Bucket {
		if k.Subject == "" {
			return totals
		}
		return keyspace.BucketOf(k.Subject)
	}
	slices.SortStableFunc(kinds, func(a, b pendingKind) int {
		return cmp.Or(cmp.Compare(bucketOf(&a), bucketOf(&b)), cmp.Compare(a.Minute, b.Minute))
	})
	var parcels []parcel
	for from := 0; from < len(kinds); {
		to := from + 1
		p := parcel{bucket: bucketOf(&kinds[from]), hour: kinds[from].Minute / minutesPerHour}
		for to < len(kinds) && to-from < maxParcel && bucketOf(&kinds[to]) == p.bucket &&
			kinds[to].Minute/minutesPerHour == p.hour {
			to++
		}
		p.kinds = kinds[from:to]
		parcels = append(parcels, p)
		from = to
	}
	return parcels
}

func (p *parcel) logKeys() []string {
	keys := make([]string, 0, 1+len(p.kinds))
	log := denylog.Name(p.bucket, p.hour)
	keys = append(keys, log)
	for i := range p.kinds {
		key := log
		if id := p.kinds[i].Subject; id != "" {
			key = hoursName(p.bucket, id, p.hour/hoursPerDay)
		}
		keys = append(keys, key)
	}
	return keys
}

// logArgs writes the kinds as denials.lua reads them.
func (p *parcel) logArgs() []string {
	args := make([]string, 0, 8*len(p.kinds))
	for i := range p.kinds {
		k := &p.kinds[i]
		args = append(args, k.Field(), k.class(), strconv.FormatInt(k.Minute%minutesPerHour, 10),
			strconv.Itoa(k.used))
		for j := range k.used {
			args = append(args, k.occurrences[j].Encode())
		}
	}
	return args
}

func (k *pendingKind) class() string {
	switch {
	case k.Subject == "":
		return "p"
	case k.Registered:
		return "r"
	default:
		return "u"
	}
}

// acknowledgeLog is acknowledge of kinds of denials.
func (r *Recorder) acknowledgeLog(p *parcel, result valkey.ValkeyResult, report *Report) {
	left, err := parseLeft(result, len(p.kinds))
	switch {
	case err == nil:
		for i, calls := range left {
			if calls > 0 {
				r.pending.leaveOut(p.kinds[i].Kind, calls)
			}
		}
	case notExecuted(err):
		report.note(err)
		for i := range p.kinds {
			k := &p.kinds[i]
			for _, o := range k.occurrences[:k.used] {
				r.pending.addDenial(k.Kind, o)
			}
		}
	default:
		report.note(err)
	}
}

// parseLeft reads what denials.lua returns: the calls of each kind that it left out.
func parseLeft(result valkey.ValkeyResult, kinds int) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if !message.IsArray() {
		_, err = message.AsInt64()
		return nil, err
	}
	left, err := message.AsIntSlice()
	if err == nil && len(left) != kinds {
		err = fmt.Errorf("%d numbers: %w", len(left), errReply)
	}
	return left, err
}
