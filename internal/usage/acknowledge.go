package usage

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

// Report says what became of a Batch, in calls by subjects.
type Report struct {
	Stored   int64
	Returned int64 // surely not stored; the next Batch has them
	Lost     int64 // perhaps not stored, and not sent again
	Err      error // the first error that returned or lost something, other than an unknown script
}

// Acknowledge takes the results of the Commands, in their order. What was surely not
// stored waits for the next Batch then.
func (b *Batch) Acknowledge(results []valkey.ValkeyResult) Report {
	r := b.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	var report Report
	for i := range b.parcels {
		p := &b.parcels[i]
		if i >= len(results) {
			report.lose(p, errNoResult)
			continue
		}
		r.acknowledge(p, results[i], &report)
	}
	r.adapt(report.Err != nil)
	return report
}

var (
	errNoResult = errors.New("no result")
	errReply    = errors.New("the script's reply makes no sense")
)

func (r *Recorder) acknowledge(p *parcel, result valkey.ValkeyResult, report *Report) {
	if lua.Unknown(result.Error()) {
		r.without[p.scriptIn()] = true
	} else {
		delete(r.without, p.scriptIn())
	}
	switch {
	case p.kinds != nil:
		r.acknowledgeLog(p, result, report)
	case p.listed != nil:
		r.acknowledgeListed(p, result.Error())
	case p.routes != nil:
		r.acknowledgeRoutes(p, result.Error(), report)
	default:
		r.acknowledgeCounts(p, result, report)
	}
}

func (r *Recorder) acknowledgeCounts(p *parcel, result valkey.ValkeyResult, report *Report) {
	refused, learnt, err := parseReply(result)
	if err != nil {
		r.ranked[p.bucket] = ranked{} // the server may have lost more
	}
	if !lua.Unknown(err) && p.bucket == totalBucket(r.totals) {
		r.totals++
	}
	switch {
	case err == nil:
		r.ranked[p.bucket].learn(p.hour, learnt)
		report.Stored += p.calls() - refused
		if refused > 0 {
			r.pending.total(p.entries[0].minute).tally[unlisted] += refused
		}
	case notExecuted(err):
		report.Returned += p.calls()
		report.note(err)
		for i := range p.entries {
			r.pending.takeBack(&p.entries[i])
		}
	default:
		report.lose(p, err)
	}
}

// parseReply reads what record.lua returns.
func parseReply(result valkey.ValkeyResult) (refused int64, learnt floors, err error) {
	learnt = floors{-1, -1, -1, -1}
	message, err := result.ToMessage()
	if err != nil {
		return 0, learnt, err
	}
	if !message.IsArray() {
		refused, err = message.AsInt64()
		return refused, learnt, err
	}
	numbers, err := message.ToArray()
	if err != nil || len(numbers) != 1+len(learnt) {
		return 0, learnt, fmt.Errorf("%d numbers: %w", len(numbers), errReply)
	}
	for i := range learnt {
		learnt[i], err = numbers[1+i].AsInt64()
		if err != nil {
			return 0, learnt, err
		}
	}
	refused, err = numbers[0].AsInt64()
	return refused, learnt, err
}

func (r *Report) lose(p *parcel, err error) {
	r.Lost += p.calls()
	r.note(err)
}

func (r *Report) note(err error) {
	if r.Err == nil && err != nil && !lua.Unknown(err) {
		r.Err = fmt.Errorf("usage: flush: %w", err)
	}
}

// calls returns how many calls by subjects the parcel counts.
func (p *parcel) calls() int64 {
	var n int64
	for i := range p.entries {
		if p.entries[i].scope == subject {
			n += p.entries[i].tally.calls()
		}
	}
	return n
}

// Errors that come before anything is executed.
var unexecuted = []string{
	"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY",
	"OOM", "NOAUTH", "MISCONF", "NOREPLICAS",
}

// notExecuted: the server surely did nothing.
func notExecuted(err error) bool {
	var refusal *valkey.ValkeyError
	if errors.As(err, &refusal) {
		word, _, _ := strings.Cut(refusal.Error(), " ")
		return slices.Contains(unexecuted, word)
	}
	var operation *net.OpError
	return errors.Is(err, valkey.ErrNoSlot) || errors.As(err, &operation) && operation.Op == "dial"
}
