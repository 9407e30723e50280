package limiter

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

const (
	epoch   = 1_800_000_000_000_000 // a ledger's time 0 (microseconds since 1970)
	forever = 1 << 50
)

// countsRanges describes what random histories of changing limits are made of.
const countsRanges = `plans: 2, 1 to 4 limits each
overrides: 1 or 2 limits, for 0 to 2 windows or until ended
limits: 1 to 12 or 1 to 300 requests, or 1 to 900 with 64 slots; any algorithm; 1 in 4 logs
countDenied; 1 in 5 of calls, 1 in 6 in shadow mode
windows: 1 s to 1 h (10 fixed, or any millisecond); calendar minute, hour, day in three zones
events: 5 to 60: calls of cost 1 to 900, bursts, looks at any list, refunds, edits, undo, shadow
on and off, overrides, calls with the other plan
clock: moves by 0 to 3 windows, or back by up to a second`

func (h *changing) fail(t *rapid.T, format string, args ...any) {
	t.Fatalf("%s\n%s", strings.Join(h.log, "\n"), fmt.Sprintf(format, args...))
}

// step makes a step on the model and the script.
func (h *changing) step(t *rapid.T, s Step) Decision {
	s.Now = time.UnixMicro(epoch + h.now)
	h.expire(s.Now)
	d := h.model.Step(s)
	h.log = append(h.log, describe(s, s.Taken.UnixMicro(), d))
	if s.Cost != 0 {
		if blind := h.blind.Step(s); blind.Allowed != d.Allowed || !slices.Equal(blind.Limits, d.Limits) {
			h.fail(t, "without the looks: %s", describe(s, 0, blind))
		}
	}
	if h.client == nil {
		return d
	}
	got, err := h.run(t, s)
	equal := func(a, b Usage) bool { return a.Remaining == b.Remaining && a.RetryAfter == b.RetryAfter }
	if err != nil || got.Allowed != d.Allowed || !slices.EqualFunc(got.Limits, d.Limits, equal) {
		h.fail(t, "script: %v %s", err, describe(s, 0, got))
	}
	return d
}

// expire deletes the state if the server would have.
func (h *changing) expire(now time.Time) {
	if h.client == nil {
		return
	}
	ctx, c := context.Background(), h.client
	expiry, err := c.Do(ctx, c.B().Get().Key(h.key+":expiry").Build()).AsInt64()
	if err == nil && now.UnixMicro() >= expiry {
		c.Do(ctx, c.B().Del().Key(h.key).Key(h.key+":expiry").Build())
		h.model, h.blind = Model{}, Model{}
	}
}

// run makes a step on the script.
func (h *changing) run(t *rapid.T, s Step) (Decision, error) {
	ctx, c := context.Background(), h.client
	program, counted := h.compile(t, s.Limits).Sparing(s.Spared), ""
	if len(s.Counted) > 0 {
		counted = string(h.compile(t, s.Counted))
	}
	keys, now := []string{h.key}, number(s.Now.UnixMicro())
	var result valkey.ValkeyResult
	if s.Cost == 0 {
		before := h.bytes()
		result = h.look.Exec(ctx, c, keys, []string{string(program), "0", now})
		if h.bytes() != before {
			h.fail(t, "a look wrote")
		}
	} else {
		taken := int64(0)
		if s.Cost < 0 {
			taken = s.Taken.UnixMicro()
		}
		result = h.take.Exec(ctx, c, keys, []string{string(program), number(s.Cost), number(s.Calls),
			number(taken), counted, now})
	}
	reply, err := result.ToString()
	if err != nil {
		return Decision{}, err
	}
	return ParseReply([]byte(reply), s.Limits)
}

func (h *changing) bytes() string {
	state, _ := h.client.Do(context.Background(), h.client.B().Get().Key(h.key).Build()).ToString()
	return state
}

func (h *changing) compile(t *rapid.T, limits []Limit) Program {
	program, err := Compile(limits, time.UnixMicro(epoch+h.now))
	if err != nil {
		h.fail(t, "compile: %v", err)
	}
	return program
}

// call makes a call, and checks its decision by the list of calls.
func (h *changing) call(t *rapid.T, cost int64) {
	limits, counted := h.limits()
	for _, l := range limits {
		if !l.Shadow && !l.Calls {
			cost = min(cost, l.Requests)
		}
	}
	named := names(limits, counted)
	h.name(named)
	room, full := true, true // every limit has room by the least; none has by the most
	for _, l := range limits {
		if want := amount(l, cost, 1); !l.Shadow {
			room = room && h.least(same(l))+want <= l.Requests
			full = full && h.most(same(l))+want <= l.Requests
		}
	}
	d := h.step(t, Step{Limits: limits, Counted: counted, Cost: cost})
	h.calls = append(h.calls, madeCall{at: h.now, highest: h.highest, elapsed: h.elapsed, cost: cost,
		admitted: d.Allowed, by: named, limits: limits})
	switch {
	case d.Allowed && !room:
		h.fail(t, "the call is allowed, but a limit has no room: %s", h.bounds(limits))
	case !d.Allowed && full:
		h.fail(t, "the call is denied, but every limit has room: %s", h.bounds(limits))
	}
	h.check(t, d)
}

// check checks what remains by the list of calls.
func (h *changing) check(t *rapid.T, d Decision) {
	for _, u := range d.Limits {
		id := same(u.Limit)
		if least, most := h.least(id), h.most(id); !u.Limit.Shadow &&
			(u.Remaining > max(0, u.Limit.Requests-least) || u.Remaining < u.Limit.Requests-most) {
			h.fail(t, "%v: %d remain, but it counts %d to %d", u.Limit, u.Remaining, least, most)
		}
	}
}

// peek looks at the limits in force, and checks what remains. A new limit takes over calls in a
// look too, but forgets them.
func (h *changing) peek(t *rapid.T) {
	limits, _ := h.limits()
	former := h.ledger
	h.taken = map[Limit]map[int]int64{}
	for id, taken := range former.taken {
		h.taken[id] = maps.Clone(taken)
	}
	h.name(names(limits, nil))
	h.check(t, h.step(t, Step{Limits: limits})) // a look knows no counted limits
	h.ledger = former
}

func (h *changing) bounds(limits []Limit) (text string) {
	for _, l := range limits {
		text += fmt.Sprintf("[%v %v counts %d to %d]", l, l.Algorithm, h.least(same(l)), h.most(same(l)))
	}
	return text
}

// refund gives back a part of a call to the limits in force, which counted it.
func (h *changing) refund(t *rapid.T) {
	i := rapid.IntRange(0, len(h.calls)-1).Draw(t, "call")
	limits, counted := h.limits()
	named, left, ones := names(limits, counted), h.calls[i].cost, int64(1)
	for _, r := range h.refunds {
		if r.call == i {
			left, ones = left-r.cost, ones-r.ones
		}
	}
	for id := range named {
		if _, by := h.calls[i].by[id]; !by {
			return
		}
	}
	if left == 0 || !h.calls[i].admitted {
		return
	}
	h.name(named)
	r := madeRefund{call: i, calls: len(h.calls), elapsed: h.elapsed, highest: h.highest, by: named,
		cost: rapid.Int64Range(1, left).Draw(t, "refunded"), ones: rapid.Int64Range(0, ones).Draw(t, "calls")}
	d := h.step(t, Step{Limits: limits, Counted: counted, Cost: -r.cost, Calls: r.ones,
		Taken: time.UnixMicro(epoch + h.calls[i].at)})
	r.exact = d.Unreturned == 0 && !slices.ContainsFunc(h.backs, func(b stepBack) bool { return b.calls > i })
	h.refunds = append(h.refunds, r)
	h.check(t, d)
}

func (h *changing) event(t *rapid.T) {
	switch rapid.IntRange(0, 15).Draw(t, "event") {
	case 0, 1, 2:
		h.change(t)
	case 3, 4, 5, 6:
		h.advance(t)
	case 7:
		if len(h.calls) > 0 {
			h.refund(t)
		}
	case 8:
		list := rapid.SampledFrom(append(h.former, h.plans[:]...)).Draw(t, "looked at")
		h.step(t, Step{Limits: list})
	case 9:
		h.peek(t)
	case 10, 11:
		h.call(t, rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, 900)).Draw(t, "cost"))
	case 12:
		for range rapid.IntRange(2, 12).Draw(t, "burst") {
			h.call(t, 1)
		}
	default:
		h.call(t, 1)
	}
}

// checkRolling checks that in no window of a log limit the calls admitted while it was in force
// exceed it.
func (h *changing) checkRolling(t *rapid.T) {
	for last, c := range h.calls {
		for _, l := range c.limits {
			if l.Algorithm != Log || l.Shadow || !c.admitted {
				continue
			}
			admitted := int64(0)
			for i, earlier := range h.calls[:last+1] {
				if earlier.admitted && c.elapsed-earlier.elapsed < l.Window.Microseconds() &&
					slices.Contains(earlier.limits, l) {
					admitted += amount(l, earlier.cost, 1)
					for _, r := range h.refunds {
						if r.call == i {
							admitted -= amount(l, r.cost, r.ones)
						}
					}
				}
			}
			if admitted > l.Requests {
				h.fail(t, "%d calls are admitted by %v in the window to %d", admitted, l, c.at)
			}
		}
	}
}

// For random histories of calls and changes, every decision is right by the plain list of
// the calls: a limit forgets nothing that it counted, whatever came between, a look changes
// nothing, and a call is only denied where a limit may have counted too much for it.
func TestCountsSurviveChanges(t *testing.T) {
	all, share := 1_000, 10
	if tier.Histories(100) == 100 {
		all, share = 10_000, 50
	}
	checks := flag.Lookup("rapid.checks").Value
	// the default
	if former := checks.String(); former == "100" || former == strconv.Itoa(tier.Histories(100)) {
		_ = checks.Set(strconv.Itoa(all))
		t.Cleanup(func() { _ = checks.Set(former) })
	}
	t.Log(countsRanges)
	client := connect(t, valkeytest.Start(t))
	take := clockedScript(t)
	look := valkey.NewLuaScriptReadOnly(strings.ReplaceAll(LookScript(),
		"local now = t[1] * 1000000 + t[2]\n", "local now = tonumber(ARGV[3])\n"))
	n, calls, denied, scripted := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := &changing{key: "c" + strconv.Itoa(n), take: take, look: look}
		n++
		if rapid.IntRange(0, share-1).Draw(rt, "on the script") == 0 {
			h.client = client
			scripted++
		}
		h.move(864_000_000_000 + rapid.Int64Range(0, 86_400_000_000).Draw(rt, "start"))
		for i := range h.plans {
			h.plans[i] = h.drawPlan(rt, 4)
			h.count(h.plans[i])
		}
		for range rapid.IntRange(5, 60).Draw(rt, "events") {
			h.event(rt)
		}
		h.checkRolling(rt)
		calls += len(h.calls)
		for _, c := range h.calls {
			if !c.admitted {
				denied++
			}
		}
		if h.client != nil {
			client.Do(t.Context(), client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
		}
	})
	t.Logf("%d histories (%d on the script too), %d calls, %d denied", n, scripted, calls, denied)
}

// A quota of a week, a month or a year that moves to another time zone keeps its count. It
// begins anew only if the period has just begun in the new zone alone.
func TestQuotaMovesToAnotherZone(t *testing.T) {
	h := &changing{key: "zones", client: connect(t, valkeytest.Start(t)), take: clockedScript(t)}
	h.look = valkey.NewLuaScriptReadOnly(strings.ReplaceAll(LookScript(),
		"local now = t[1] * 1000000 + t[2]\n", "local now = tonumber(ARGV[3])\n"))
	zones := rapid.SampledFrom([]string{"", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati",
		"Pacific/Pago_Pago"})
	rapid.Check(t, func(rt *rapid.T) {
		before := Limit{Requests: 1000, Algorithm: FixedWindow, Zone: zones.Draw(rt, "zone"),
			Calendar: rapid.SampledFrom([]Calendar{Week, Month, Year}).Draw(rt, "calendar")}
		after := before
		after.Zone = zones.Draw(rt, "new zone")
		h.model, h.blind, h.log = Model{}, Model{}, nil
		h.now = rapid.Int64Range(0, 400*86_400_000_000).Draw(rt, "now")
		h.client.Do(t.Context(), h.client.B().Del().Key(h.key).Build())
		begins := func(l Limit) int64 {
			now := epoch + h.now
			start, _ := l.Calendar.Around(now, l.Calendar.Shifts(l.Zone, time.UnixMicro(now)))
			return start
		}
		h.step(rt, Step{Limits: []Limit{before}, Cost: 300})
		want := int64(700)
		if begins(after)-begins(before) > 26*3_600_000_000 {
			want = 1000
		}
		if got := h.step(rt, Step{Limits: []Limit{after}}).Limits[0].Remaining; got != want {
			h.fail(rt, "%d remain, want %d", got, want)
		}
	})
}

// A limit that is newer than a call gives nothing of it back: it never counted the call, or
// took over an unknown part. Other calls would lose their count.
func TestNewLimitRefundsNoEarlierCall(t *testing.T) {
	h := &changing{key: "refunds", client: connect(t, valkeytest.Start(t)), take: clockedScript(t)}
	rapid.Check(t, func(rt *rapid.T) {
		h.model, h.blind, h.log, h.now = Model{}, Model{}, nil, 0
		h.client.Do(t.Context(), h.client.B().Del().Key(h.key).Key(h.key+":expiry").Build())
		before := Limit{Requests: 100, Window: 10 * time.Second, Algorithm: Counter}
		after := Limit{Requests: 1000, Window: 30 * time.Minute,
			Algorithm: rapid.SampledFrom(Algorithms()).Draw(rt, "algorithm")}
		if after.Algorithm == Log {
			after.Slots = MinSlots
		}
		h.step(rt, Step{Limits: []Limit{before}, Cost: 50})
		h.move(60_000_000) // the counter has forgotten the call
		h.step(rt, Step{Limits: []Limit{before}, Cost: 1})
		took := h.step(rt, Step{Limits: []Limit{before, after}, Cost: 90}).Limits[1].Remaining
		d := h.step(rt, Step{Limits: []Limit{before, after}, Cost: -50, Calls: 1,
			Taken: time.UnixMicro(epoch)})
		if got := d.Limits[1].Remaining; got != took || d.Unreturned == 0 {
			h.fail(rt, "%d remain, want %d and an answer that something was not returned", got, took)
		}
	})
}
