package records

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store"
)

// Report is the outcome of a batch.
type Report struct {
	Returned int64 // counts that surely were not stored; they are pending again
	Lost     int64 // counts that perhaps were not stored; their minutes are marked
	Err      error // the first error
}

var errNoResult = errors.New("no result")

// Acknowledge takes the results of the Commands, in their order.
func (b *Batch) Acknowledge(results []valkey.ValkeyResult) Report {
	r := b.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	var report Report
	lost := false
	for i := range b.writes {
		w := &b.writes[i]
		reply, err := int64(0), errNoResult
		if i < len(results) {
			reply, err = replyOf(results[i])
		}
		if err == nil {
			lost = lost || w.n > 0 && reply == w.n && r.told[w.counter] > 0 // a known count began anew
			r.stored(w, reply)
			continue
		}
		if report.Err == nil {
			report.Err = fmt.Errorf("records: %s: %w", w.name, err)
		}
		r.failed(w, notExecuted(err), &report)
	}
	if lost {
		clear(r.touched)
		for key, kept := range b.untouched {
			r.follow(expiry(key, kept))
		}
	}
	r.slowDown(report.Err != nil)
	return report
}

// replyOf returns a reply's number, 0 if it is none. Nil is the reply of SET to a key that
// exists.
func replyOf(result valkey.ValkeyResult) (int64, error) {
	message, err := result.ToMessage()
	if err != nil && !valkey.IsValkeyNil(err) {
		return 0, err
	}
	n, _ := message.AsInt64()
	return n, nil
}

// slowDown lengthens the pause while Valkey fails. Once it answers, the minutes in between
// are marked: environments that are asleep hold calls of them.
func (r *Recorder) slowDown(failed bool) {
	minute := minutes.slotOf(r.now())
	switch {
	case failed:
		r.pause = min(max(2*r.pause, minPause), maxPause)
		if r.failing == 0 {
			r.failing = minute
		}
	case r.failing > 0:
		for m := max(r.failing, minute-maxUnsure/10); m <= minute; m++ {
			r.pending.unsure[m] = true
		}
		r.pending.urgent = true
		fallthrough
	default:
		r.pause, r.failing = 0, 0
	}
}

// stored takes the reply to a command.
func (r *Recorder) stored(w *write, reply int64) {
	if w.fullAt > 0 && reply >= maxNewcomers {
		r.full[w.partition] = w.fullAt
	}
	if w.name != "HINCRBY" {
		return
	}
	if w.denials != nil {
		r.tell(w.denials, w.counter, reply-w.n)
	}
	if w.denials != nil || w.counter.id == totalID && w.counter.scale == hours {
		remember(r.told, w.counter, reply)
	}
}

// tell sends the entry of the first call of a kind in a minute, and the ids of the first
// requests. before is how many calls of them were counted before.
func (r *Recorder) tell(d *denials, k counter, before int64) {
	writes := requests(d, k, before)
	if before <= 0 {
		writes = append(writes, stream(k.id, d.registered, denialStream, maxDenials, "j", d.entry(k)))
	}
	for _, w := range writes {
		r.follow(w)
		r.follow(expiry(w.key, MinutesKept))
	}
}

// requests returns the command that stores the ids of the first requests, if there are any.
func requests(d *denials, k counter, before int64) []write {
	ids := d.requests[:min(int64(len(d.requests)), max(maxKept-before, 0))]
	if len(ids) == 0 {
		return nil
	}
	return []write{stream(k.id, d.registered, idStream, maxIDs, "c", d.first.Caller, "m",
		strconv.FormatInt(k.slot, 10), "k", k.kind, "i", strings.Join(ids, " "))}
}

// stream returns the command that adds an entry to a stream.
func stream(id string, registered bool, name string, most int, fields ...string) write {
	if !registered {
		most /= 4
	}
	args := append([]string{"MAXLEN", "~", strconv.Itoa(most), "*"}, fields...)
	return write{name: "XADD", key: streamKey(id, registered, name), args: args}
}

// follow sends a command with the next batch, at once.
func (r *Recorder) follow(w write) {
	if len(r.pending.follow) < maxFollow {
		r.pending.follow = append(r.pending.follow, w)
		r.pending.urgent = true
		r.pending.known = true
	}
}

// failed takes a command that failed. It is sent again if that is safe. surely says that
// the server did not execute it.
func (r *Recorder) failed(w *write, surely bool, report *Report) {
	delete(r.touched, w.key)
	isCount := w.name == "HINCRBY"
	switch {
	case isCount && surely:
		report.Returned += w.n
		r.pending.counts[w.counter] += w.n
		if w.denials != nil && r.pending.denials[w.counter] == nil {
			r.pending.denials[w.counter] = w.denials
		}
		r.pending.known = true
	case isCount:
		report.Lost += w.n
		if w.counter.scale == minutes {
			r.pending.unsure[w.counter.slot] = true
		}
		if w.denials != nil {
			r.tell(w.denials, w.counter, 0)
		}
	case w.name == "EXPIRE", w.once && !surely: // the key's next write sets its expiry
	default:
		r.follow(*w)
	}
}

// notExecuted reports whether the server surely did nothing.
func notExecuted(err error) bool {
	if refusal, ok := errors.AsType[*valkey.ValkeyError](err); ok {
		return store.Unavailable(refusal)
	}
	operation, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, valkey.ErrNoSlot) || ok && operation.Op == "dial"
}

// maxRounds is how many batches Send sends: the records, and what their replies call for.
const maxRounds = 3

// Send sends the pending records that are due, and what their replies call for. A check
// function calls it after each answer, before it asks for the next event.
func (r *Recorder) Send(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.Batch)
}

// Flush sends all pending records, due or not, for the end of a program.
func (r *Recorder) Flush(ctx context.Context, client valkey.Client) Report {
	return r.send(ctx, client, r.drain)
}

func (r *Recorder) send(ctx context.Context, client valkey.Client, take func(time.Time) *Batch) (sum Report) {
	for range maxRounds {
		b := take(r.now())
		if b == nil {
			break
		}
		report := b.Acknowledge(client.DoMulti(ctx, b.Commands(client)...))
		sum.Returned, sum.Lost = sum.Returned+report.Returned, sum.Lost+report.Lost
		if sum.Err = report.Err; sum.Err != nil {
			break
		}
	}
	return sum
}
