package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
	"tidegate/internal/store"
)

// maxRounds is how many times a flush sends records that are not stored yet. The second
// round carries the scripts' texts; later rounds are for servers that got no text.
const maxRounds = 4

// Flush sends all pending records, due or not, for the end of a program. Report.Returned
// counts those that are still pending.
func (r *Recorder) Flush(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.Drain)
}

// FlushEarly sends the pending records after a check's answer, since Lambda may freeze
// the environment until its next call. In a busy environment, it sends the first maxEarly
// times immediately, and then once an interval.
func (r *Recorder) FlushEarly(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.early)
}

func (r *Recorder) send(
	ctx context.Context, client valkey.Client, take func(time.Time) *Batch,
) Report {
	var sum Report
	for range maxRounds {
		b := take(r.now())
		if b == nil {
			break
		}
		round := b.Acknowledge(client.DoMulti(ctx, b.Commands(client)...))
		sum.Stored += round.Stored
		sum.Lost += round.Lost
		sum.Returned = round.Returned
		sum.Err = cmp.Or(sum.Err, round.Err)
		if round.Err != nil {
			break
		}
	}
	return sum
}

// Report is the outcome of a flush, in calls by subjects.
type Report struct {
	Stored   int64
	Returned int64 // surely not stored; they are pending again
	Lost     int64 // perhaps not stored; they are not sent again
	Err      error // first error that returned or lost records, other than an unknown script
}

var (
	errNoResult = errors.New("no result")
	errReply    = errors.New("malformed reply of the script")
)

// Acknowledge takes the results of the Commands, in their order. Records that were surely
// not stored are pending again afterwards.
func (b *Batch) Acknowledge(results []valkey.ValkeyResult) Report {
	r := b.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	var report Report
	for i := range b.parcels {
		p := &b.parcels[i]
		if i >= len(results) {
			if c, ok := p.payload.(*counts); ok {
				report.Lost += c.calls()
			}
			report.note(errNoResult)
			continue
		}
		if lua.Unknown(results[i].Error()) {
			r.scriptUnknown[p.scriptIn()] = true
		} else {
			delete(r.scriptUnknown, p.scriptIn())
		}
		p.acknowledge(r, p.place, results[i], &report)
	}
	if report.Err != nil {
		r.pause = min(2*r.pause, maxPause)
	} else {
		r.pause = r.interval
	}
	return report
}

// note keeps the first error.
func (r *Report) note(err error) {
	if r.Err == nil && err != nil && !lua.Unknown(err) {
		r.Err = fmt.Errorf("usage: flush: %w", err)
	}
}

func (c *counts) acknowledge(r *Recorder, at place, result valkey.ValkeyResult, report *Report) {
	refused, rising, err := parseReply(result)
	if err != nil {
		r.ranked[at.bucket] = bucketFloors{} // the server may have lost its rankings
	}
	if !lua.Unknown(err) && at.bucket == totalBucket(r.nextTotals) {
		r.nextTotals++
	}
	switch {
	case err == nil:
		r.ranked[at.bucket].raise(at.period, rising)
		report.Stored += c.calls() - refused
		if refused > 0 {
			r.pending.total(c.entries[0].minute).tally[unlisted] += refused
		}
	case notExecuted(err):
		report.Returned += c.calls()
		report.note(err)
		for i := range c.entries {
			r.pending.takeBack(&c.entries[i])
		}
	default:
		report.Lost += c.calls()
		report.note(err)
	}
}

// parseReply reads what record.lua returns: the calls of refused newcomers, and the new
// floors of the rankings, -1 for those that did not change.
func parseReply(result valkey.ValkeyResult) (refused int64, rising floors, err error) {
	rising = floors{-1, -1, -1, -1}
	message, err := result.ToMessage()
	if err != nil {
		return 0, rising, err
	}
	if !message.IsArray() {
		refused, err = message.AsInt64()
		return refused, rising, err
	}
	numbers, err := message.AsIntSlice()
	if err == nil && len(numbers) != 1+len(rising) {
		err = fmt.Errorf("%d numbers: %w", len(numbers), errReply)
	}
	if err != nil {
		return 0, rising, err
	}
	return numbers[0], floors(numbers[1:]), nil
}

// notExecuted reports whether the server surely did nothing.
func notExecuted(err error) bool {
	if refusal, ok := errors.AsType[*valkey.ValkeyError](err); ok {
		return store.Unavailable(refusal)
	}
	operation, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, valkey.ErrNoSlot) || ok && operation.Op == "dial"
}
