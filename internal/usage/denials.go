package usage

import (
	"cmp"
	"context"
	_ "embed" // the script
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
)

//go:embed denials.lua
var denialsText string

var denialsScript = lua.New(func() string { return denialsText })

// Denials returns a page of the denial log, newest first.
func (r *Reader) Denials(ctx context.Context, q denylog.Query) (denylog.Page, error) {
	return denylog.Read(ctx, r.client, q)
}

// EveryDenial iterates over all denials of a query, newest first.
func (r *Reader) EveryDenial(ctx context.Context, q denylog.Query) iter.Seq2[denylog.Entry, error] {
	return denylog.All(ctx, r.client, q)
}

// SumDenials counts the denials of a query in steps, and by what they have in common.
func (r *Reader) SumDenials(
	ctx context.Context, q denylog.Query, step time.Duration,
) (denylog.Summary, error) {
	return denylog.Summarize(ctx, r.client, q, step)
}

// DenialsOf returns every denial of one caller in a period, newest first.
func (r *Reader) DenialsOf(ctx context.Context, id string, from, to time.Time) (denylog.Page, error) {
	return denylog.OfSubject(ctx, r.client, denylog.Query{Subject: id, From: from, To: to})
}

// Refusals are numbers of refused credentials.
type Refusals struct {
	ByCause  [cause.Refusals]int64
	Unlogged int64 // denials and refusals that are not in the denial log
	// UnloggedTrials are calls that limits on trial would have denied, and that are not in
	// their log.
	UnloggedTrials int64
}

// Of returns the number of refusals with a cause.
func (r Refusals) Of(c cause.Cause) int64 {
	if !c.Refuses() {
		return 0
	}
	return r.ByCause[c-cause.Missing]
}

// Sum returns the number of refusals.
func (r Refusals) Sum() int64 {
	var sum int64
	for _, n := range r.ByCause {
		sum += n
	}
	return sum
}

// Refusals returns the refused calls between two times that proved to have a secret of
// this key, or the refused credentials of all callers if the id is empty. Times and steps
// have the bounds of Overview.
func (r *Reader) Refusals(
	ctx context.Context, id string, from, to time.Time, step time.Duration,
) (Refusals, error) {
	s, err := newSpan(from, to, step)
	if err != nil {
		return Refusals{}, err
	}
	sources := s.totalSources(refusedID)
	if id != "" {
		sources = s.appendSources(nil, keyspace.BucketOf(id), id+refusedID, 0)
	}
	var sum Refusals
	tallies, err := r.tallies(ctx, s, sources, 1, causesPerSlot)
	if err != nil {
		return sum, fmt.Errorf("usage: refusals: %w", err)
	}
	for _, t := range tallies {
		for i := range sum.ByCause {
			sum.ByCause[i] += t[i]
		}
		sum.Unlogged += t[unlogged]
		sum.UnloggedTrials += t[unloggedTrials]
	}
	return sum, nil
}

// maxKinds is the most kinds of a log that wait for a flush. Denials of further kinds are
// not logged.
const maxKinds = 256

// pendingLog is denials that wait for a flush.
type pendingLog struct {
	index map[denylog.Kind]int // of list
	list  []pendingDenials
}

// logOf returns the log of denials with a cause.
func (p *pending) logOf(c cause.Cause) *pendingLog {
	if c.OnTrial() {
		return &p.trials
	}
	return &p.denials
}

// pendingDenials are denials of one kind that wait for a flush.
type pendingDenials struct {
	denylog.Kind

	occurrences [denylog.MaxOccurrences]denylog.Occurrence
	used        int // occurrences in use
}

// logDenial adds a denial of a call to its log.
func (p *pending) logDenial(o *Outcome, d *denylog.Denial, minute int64) {
	if d == nil || d.Cause == 0 {
		return
	}
	k := denylog.Kind{
		Minute: minute, Registered: o.Registered, Subject: o.Subject, Cause: d.Cause, Plan: d.Plan,
		Limit: d.Limit, Rule: d.Rule, Method: d.Method, Path: d.Path, API: d.API, Stage: d.Stage,
		Group: d.Group, Reason: d.Reason,
	}
	p.addDenials(k, denylog.Occurrence{
		At: max(o.Time.UnixMilli(), 0) % (1000 * secondsPerHour), Calls: 1, RetryAfter: d.RetryAfter,
		Network: d.Network, Request: d.Request,
	})
}

// addDenials adds denials to their kind, or counts them as unlogged.
func (p *pending) addDenials(k denylog.Kind, o denylog.Occurrence) {
	log := p.logOf(k.Cause)
	i, found := log.index[k]
	if !found {
		if len(log.list) == maxKinds || k.Subject != "" && !validID(k.Subject) {
			p.countUnlogged(k, o.Calls)
			return
		}
		if log.index == nil {
			log.index = map[denylog.Kind]int{}
		}
		i = len(log.list)
		log.index[k] = i
		if k.Subject == "" && k.Cause.Refuses() {
			p.anonymous++
		}
		log.list = append(log.list, pendingDenials{Kind: k})
	}
	if d := &log.list[i]; d.used < denylog.MaxOccurrences {
		d.occurrences[d.used] = o
		d.used++
	} else {
		d.occurrences[d.used-1].Calls += o.Calls
	}
}

// countUnlogged counts denials that are not in their log. Those by limits on trial leave
// half of the entries of known keys to others.
func (p *pending) countUnlogged(k denylog.Kind, calls int64) {
	if k.Cause.OnTrial() {
		known := k.Registered && p.refusals < maxRefusals/2
		p.countRefusals(known, k.Subject, k.Minute, unloggedTrials, calls)
		return
	}
	p.countRefusals(k.Registered, k.Subject, k.Minute, unlogged, calls)
}

// denials is the payload of denials, to be logged.
type denials []pendingDenials

// packDenials sorts the denials of a log into parcels, in order of their buckets. Denials
// of callers without an id go where totals do.
func (r *Recorder) packDenials(waiting []pendingDenials) []parcel {
	totals := totalBucket(r.nextTotals)
	placeOf := func(d *pendingDenials) place {
		b := totals
		if d.Subject != "" {
			b = keyspace.BucketOf(d.Subject)
		}
		return place{b, d.Minute / minutesPerHour}
	}
	slices.SortStableFunc(waiting, func(a, b pendingDenials) int {
		return cmp.Or(cmp.Compare(placeOf(&a).bucket, placeOf(&b).bucket), cmp.Compare(a.Minute, b.Minute))
	})
	return parcelsOf(waiting, maxParcel, placeOf,
		func(_ place, run []pendingDenials) payload { return denials(run) })
}

func (denials) script() *lua.Script { return denialsScript }

// arguments returns the keys and arguments as denials.lua reads them.
func (ds denials) arguments(_ *Batch, at place) (keys, args []string) {
	log := denylog.Name(at.bucket, at.period, ds[0].Cause.OnTrial())
	keys = append(make([]string, 0, 1+len(ds)), log)
	args = make([]string, 0, 8*len(ds))
	for i := range ds {
		d := &ds[i]
		class, key := "p", log
		if d.Subject != "" {
			class, key = "u", hoursName(at.bucket, d.Subject, at.period/hoursPerDay)
			if d.Registered {
				class = "r"
			}
		}
		keys = append(keys, key)
		args = append(args, d.Field(), class, strconv.FormatInt(d.Minute%minutesPerHour, 10),
			strconv.Itoa(d.used))
		for j := range d.used {
			args = append(args, d.occurrences[j].Encode())
		}
	}
	return keys, args
}

func (ds denials) acknowledge(r *Recorder, _ place, result valkey.ValkeyResult, report *Report) {
	omitted, err := parseUnlogged(result, len(ds))
	report.note(err)
	switch {
	case err == nil:
		for i, calls := range omitted {
			if calls > 0 {
				r.pending.countUnlogged(ds[i].Kind, calls)
			}
		}
	case notExecuted(err):
		for i := range ds {
			d := &ds[i]
			for _, o := range d.occurrences[:d.used] {
				r.pending.addDenials(d.Kind, o)
			}
		}
	}
}

// parseUnlogged reads what denials.lua returns: the unlogged calls of each kind, or 0 if
// there are none.
func parseUnlogged(result valkey.ValkeyResult, kinds int) ([]int64, error) {
	message, err := result.ToMessage()
	if err != nil {
		return nil, err
	}
	if !message.IsArray() {
		_, err = message.AsInt64()
		return nil, err
	}
	calls, err := message.AsIntSlice()
	if err == nil && len(calls) != kinds {
		err = fmt.Errorf("%d numbers: %w", len(calls), errReply)
	}
	return calls, err
}
