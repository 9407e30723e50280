package limiter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// A refund gives back at most what the call took: a subject that took and was refunded is
// never better off than its twin that never took. A log without groups, a counter and a
// fixed window then stand as the twin does, unless the twin's window ended meanwhile.
func TestRefundGivesBackAtMostWhatWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{
			Requests: rapid.Int64Range(2, 40).Draw(t, "requests"), Window: windows.Draw(t, "window"),
			Algorithm: rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"),
		}
		checkRefund(t, limit)
	})
}

// A token bucket refills meanwhile: what a call took has partly or wholly come back by
// itself, and is not given back a second time.
func TestRefundOfATokenBucketThatRefilled(t *testing.T) {
	limits := []Limit{{Requests: 10, Window: 10 * time.Second, Algorithm: TokenBucket}}
	var m Model
	for _, e := range []struct {
		second float64
		cost   int64
	}{{0, 10}, {9, 5}} {
		if d, err := m.Take(at(e.second), limits, e.cost); err != nil || !d.Allowed {
			t.Fatalf("cost %d at %gs: %+v, %v", e.cost, e.second, d, err)
		}
	}
	// Without the first call, the second one would have left 5 of 10.
	if d := m.Refund(at(9), limits, 10, at(0), 0); d.Limits[0].Remaining > 5 {
		t.Errorf("%d remain after a refund of calls that had come back but for one, want at most 5",
			d.Limits[0].Remaining)
	}
}

// twins are a subject and another that did not make the call that is refunded.
type twins struct {
	limits     []Limit
	one, other Model
	now        time.Time
	log        []string
}

// take lets both take when the one may.
func (w *twins) take(t *rapid.T, cost int64) {
	d, err := w.one.Take(w.now, w.limits, cost)
	if err != nil {
		t.Fatal(err)
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d: %t", w.now.UnixMicro(), cost, d.Allowed))
	if !d.Allowed {
		return
	}
	if d, _ := w.other.Take(w.now, w.limits, cost); !d.Allowed {
		t.Fatalf("%v\n%s\nallowed only to the one that took more", w.limits, strings.Join(w.log, "\n"))
	}
}

func (w *twins) play(t *rapid.T) {
	for range events(t) {
		span := w.limits[0].Window.Microseconds()
		w.now = w.now.Add(time.Duration(rapid.Int64Range(0, span/3).Draw(t, "forward")) * time.Microsecond)
		w.take(t, rapid.Int64Range(1, w.limits[0].Requests).Draw(t, "cost"))
	}
}

func checkRefund(t *rapid.T, limit Limit) {
	t.Helper()
	w := &twins{limits: []Limit{limit}, now: at(0)}
	w.play(t)
	taken, cost := w.now, rapid.Int64Range(1, limit.Requests).Draw(t, "refunded")
	if d, err := w.one.Take(w.now, w.limits, cost); err != nil || !d.Allowed {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%d cost %d, to be refunded", w.now.UnixMicro(), cost))
	w.play(t)
	got := w.one.Refund(w.now, w.limits, cost, taken, 0)
	want := w.other.Peek(w.now, w.limits)
	if got.Limits[0].Remaining > want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefunded at %d: %+v, but without the call it is %+v",
			w.limits, strings.Join(w.log, "\n"), w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
	exact := slices.Contains([]Algorithm{Log, Counter, FixedWindow}, limit.Algorithm)
	if exact && got.Limits[0].Remaining != want.Limits[0].Remaining {
		t.Fatalf("%v\n%s\nrefunded at %d: %+v, without the call %+v", w.limits, strings.Join(w.log, "\n"),
			w.now.UnixMicro(), got.Limits[0], want.Limits[0])
	}
}

// Whatever is taken and given back at once by many, what remains is where the calls that
// were kept put it: 16 callers of a limit of all, of 20,000 in 5 minutes.
func TestConcurrentRefundsAreExact(t *testing.T) {
	client := separate(t, strings.TrimPrefix(valkeytest.Start(t), "valkey://"))
	for _, algorithm := range []Algorithm{Log, TokenBucket, FixedWindow} {
		limit := Limit{Requests: 20_000, Window: 5 * time.Minute, Algorithm: algorithm}
		if algorithm != Log { // of which little comes back by itself, and no boundary is near
			limit.Window = 366 * 24 * time.Hour
		}
		l := limitersOf(t, client, "tg:"+algorithm.String(), []Limit{limit})[0]
		const callers, rounds = 16, 100
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for i := range rounds {
					cost := int64(1 + i%3)
					taken, err := l.Reserve(t.Context(), "all", cost)
					if err != nil || !taken.Allowed {
						t.Errorf("%v, %v", taken, err)
						return
					}
					if i%10 == 0 { // kept
						continue
					}
					if d, err := l.Refund(t.Context(), "all", cost, taken); err != nil || d.Unreturned != 0 {
						t.Errorf("%d unreturned, %v", d.Unreturned, err)
					}
				}
			})
		}
		group.Wait()
		kept := int64(0)
		for i := 0; i < rounds; i += 10 {
			kept += callers * int64(1+i%3)
		}
		d, err := l.Peek(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		if left := d.Limits[0].Remaining; left != limit.Requests-kept {
			t.Errorf("%s: %d remain, want %d", algorithm, left, limit.Requests-kept)
		}
	}
}

// After a refund the next look sees exactly that much more, in a log with and without
// groups, whatever came between. A log without groups is the oracle's list.
func TestRefundsOfLogsAreExact(t *testing.T) {
	most := int64(0) // what grouped logs withheld, in thousandths of a group
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{Requests: 1 + p.random.Int64N(3000), Window: p.window()}
		if p.random.IntN(3) > 0 {
			p.limit.Slots = MinSlots
			p.limit.Requests += MinSlots
		}
		if p.random.IntN(10) == 0 {
			p.limit.Slots, p.limit.Requests = 500, 1_000_000
		}
		p.dense = p.random.IntN(10) == 0
		for range p.rounds() {
			p.forward()
			for range 1 + p.random.IntN(3) {
				p.take(t, p.cost(), p.limit.Requests)
			}
			if p.random.IntN(2) == 0 {
				p.checkLogRefund(t)
			}
			p.measure(t)
			left := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			withheld := p.limit.Requests - left - p.held()
			group := p.limit.group()
			if withheld < 0 || group == 1 && withheld > 0 {
				p.fail(t, "%d remain, but %d of the limit are held", left, p.held())
			}
			most = max(most, 1000*withheld/group)
			bound := 44 + 42 + 12*maxDeficits + 6*(p.limit.Requests/group*11/10+5)
			if int64(p.bytes) > bound {
				p.fail(t, "the state has %d bytes, more than %d", p.bytes, bound)
			}
		}
	})
	t.Logf("grouped logs withheld %.2f groups at most", float64(most)/1000)
}

func (p *refundPlay) checkLogRefund(t *testing.T) {
	t.Helper()
	amount, call, before, after := p.refund(t)
	if amount == 0 {
		return
	}
	if p.at.Sub(call.at) >= p.limit.Window {
		amount = 0
	}
	if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got != amount || after.Unreturned != 0 {
		p.fail(t, "%d came back and %d did not, want %d and none", got, after.Unreturned, amount)
	}
}

// More deficits than a log keeps are merged: the total stays exact, the state within its
// bound, and what is withheld is little. Each call is settled late, in any order.
func TestManyRefundsOfALogStayBounded(t *testing.T) {
	most := 0.0
	playRefunds(t, func(p *refundPlay) {
		if p.random.IntN(40) > 0 {
			return
		}
		p.limit = Limit{Requests: 1_000_000, Window: 10 * time.Minute, Slots: 100 + p.random.IntN(2000)}
		group := p.limit.group()
		for range 100 + p.random.IntN(200) {
			p.at = p.at.Add(time.Duration(p.random.IntN(2000)) * time.Millisecond)
			p.take(t, 1+p.random.Int64N(3000), p.limit.Requests)
		}
		for _, i := range p.random.Perm(len(p.calls)) {
			p.at = p.at.Add(time.Millisecond)
			c := &p.calls[i]
			amount := 1 + p.random.Int64N(c.cost)
			before := p.do(t, 0, time.Unix(0, 0))
			after := p.do(t, -amount, c.now)
			c.cost -= amount
			if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got != amount ||
				after.Unreturned != 0 {
				p.fail(t, "%d came back and %d did not, want %d and none", got, after.Unreturned, amount)
			}
		}
		if n := len(p.model.states[0].deficits); n > maxDeficits {
			p.fail(t, "%d deficits", n)
		}
		for range 50 {
			p.at = p.at.Add(15 * time.Second)
			left := p.do(t, 0, time.Unix(0, 0)).Limits[0].Remaining
			withheld := p.limit.Requests - left - p.held()
			if withheld < 0 {
				p.fail(t, "%d remain, but %d are held", left, p.held())
			}
			most = max(most, float64(withheld)/float64(group))
		}
	})
	t.Logf("grouped logs withheld %.2f groups at most", most)
	if most > 8 {
		t.Error("want at most 8 groups")
	}
}

// A counter and a fixed window stand after a refund as if the calls had never been made.
func TestRefundsOfCountsAreExact(t *testing.T) {
	playRefunds(t, func(p *refundPlay) {
		p.limit = Limit{
			Requests: 1 + p.random.Int64N(1000), Window: time.Duration(1+p.random.IntN(3000)) * time.Second,
			Algorithm: []Algorithm{Counter, FixedWindow}[p.random.IntN(2)],
		}
		for range p.rounds() {
			p.forward()
			p.take(t, p.cost(), 0)
			if p.random.IntN(2) == 0 {
				p.refund(t)
			}
			start := p.at.UnixMicro() - p.at.UnixMicro()%p.limit.Window.Microseconds()
			span := p.limit.Window.Microseconds()
			current, previous := int64(0), int64(0)
			for _, c := range p.calls {
				switch at := c.at.UnixMicro(); {
				case at >= start:
					current += c.cost
				case at >= start-span && p.limit.Algorithm == Counter:
					previous += c.cost
				}
			}
			weight := span - (p.at.UnixMicro() - start)
			used := current + (previous*weight+span-1)/span
			d := p.do(t, 0, time.Unix(0, 0))
			if got := d.Limits[0].Remaining; got != max(0, p.limit.Requests-used) {
				p.fail(t, "%d remain, want %d less %d", got, p.limit.Requests, used)
			}
		}
	})
}

// No rolling window of true time holds more than the limit of calls that were not given
// back, when the server's clock steps back and limits and slots are edited meanwhile.
func TestRefundsNeverAdmitTooMuch(t *testing.T) {
	playRefunds(t, func(p *refundPlay) {
		window := time.Duration(1+p.random.IntN(3000)) * time.Second
		limits := []Limit{{Requests: 2 + p.random.Int64N(2000), Window: window, Slots: MinSlots}}
		steps := p.random.IntN(2) == 0
		if p.random.IntN(2) == 0 {
			limits = append(limits,
				Limit{Requests: 2 + p.random.Int64N(2000), Window: window, Slots: MinSlots},
				Limit{Requests: 2 + p.random.Int64N(2000), Window: window})
		}
		bound := int64(0)
		for _, l := range limits {
			bound = max(bound, l.Requests)
		}
		p.limit = limits[0]
		for range p.rounds() {
			p.forward()
			if steps && p.random.IntN(10) == 0 {
				p.behind += time.Duration(p.random.Int64N(int64(window/5))) / 1000 * 1000
			}
			p.limit = limits[p.random.IntN(len(limits))]
			for range 1 + p.random.IntN(4) { // until little remains
				p.take(t, 1+p.random.Int64N(max(1, p.limit.Requests/3)), bound)
			}
			if p.random.IntN(2) == 0 {
				amount, _, before, after := p.refund(t)
				if amount == 0 {
					continue
				}
				if got := after.Limits[0].Remaining - before.Limits[0].Remaining; got > amount {
					p.fail(t, "%d came back of %d", got, amount)
				}
			}
		}
	})
}

// Notes for refunds are stored as the header of readstate.lua says: behind an entry of the
// signature by which older releases take the state for one with other limits.
func TestNotesAreStoredAsTheHeaderSays(t *testing.T) {
	client, script := connect(t, valkeytest.Start(t)), clockedScript(t)
	limits := []Limit{
		{Requests: 6400, Window: time.Minute, Slots: MinSlots},
		{Requests: 1000, Window: time.Minute, Algorithm: TokenBucket},
	}
	var model Model
	now := time.Unix(1_800_000_000, 0)
	program, err := Compile(limits, now)
	if err != nil {
		t.Fatal(err)
	}
	step := func(cost, at int64) {
		t.Helper()
		args := []string{string(program), number(cost), number(at), number(now.UnixMicro())}
		if _, err := script.Exec(t.Context(), client, []string{"notes"}, args).ToString(); err != nil {
			t.Fatal(err)
		}
	}
	first := now
	for range 3 {
		step(250, Reserving)
		if _, err := model.Reserve(now, limits, 250); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	step(-20, first.UnixMicro())
	model.Refund(now, limits, 20, first, 0)

	state, err := client.Do(t.Context(), client.B().Get().Key("notes").Build()).AsBytes()
	if err != nil {
		t.Fatal(err)
	}
	log, bucket := model.states[0], model.states[1]
	if len(log.deficits) != 1 || len(bucket.valleys.list) != 2 {
		t.Fatalf("the model has %v and %v, want a deficit and two valleys", log.deficits, bucket.valleys)
	}
	notes := note(1, log.deficits[0].at, log.deficits[0].calls)
	notes = append(notes, note(2, bucket.valleys.since, 1)...) // it was full
	for _, v := range bucket.valleys.list {
		notes = append(append(notes, note(2, v.at, v.part)...), note(2, v.whole, 0)...)
	}
	if got := state[len(state)-len(notes):]; !bytes.Equal(got, notes) {
		t.Errorf("notes %x, want %x", got, notes)
	}
	entry := "\x01\x00\x00\x00\x01\x06\x00\x00\x00\x00\x00\x01"
	if state[0] != programVersion || state[1] != 3 || string(state[26:38]) != entry {
		t.Errorf("signature %x", state[:38])
	}
	numbers := state[38+logLen+countLen:][:logLen]
	if n := binary.BigEndian.Uint32(numbers[14:]); int(n)*6 != len(notes) {
		t.Errorf("%d in the numbers of the notes, want %d", n, len(notes)/6)
	}
}

func note(section byte, time, last int64) []byte {
	b := append([]byte{section, byte(time >> 48)}, appendUint48(nil, time)...)
	return binary.BigEndian.AppendUint32(b, uint32(last))
}
