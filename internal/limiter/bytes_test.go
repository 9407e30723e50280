package limiter

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Lengths in a state, in bytes.
const (
	stateHead    = 4
	logEntry     = 56
	otherEntry   = 30
	deficitBytes = 11
)

// storedPart is a part of a state. For a part that is not a log, only id and entry are set.
type storedPart struct {
	id                     string
	kind                   kind
	group, span, keep      int64
	width                  int
	room, used, fill       int64
	deficits, slots, entry int
	trailing               string // slots that are not used
}

// decodeStored decodes a state in the layout of Model's comment, independently of the
// script. It returns an error if bytes are missing or left over.
func decodeStored(state string) (parts []storedPart, err error) {
	b := []byte(state)
	if len(b) < stateHead || b[0] != 1 {
		return nil, fmt.Errorf("%d bytes are no head", len(b))
	}
	head := int(binary.BigEndian.Uint16(b[2:]))
	at, data := stateHead, head
	number := func(offset int) int64 { return int64(binary.BigEndian.Uint32(b[at+offset:])) }
	for range b[1] {
		if at+otherEntry > head || head > len(b) {
			return nil, fmt.Errorf("an entry at %d, of %d bytes of entries", at, head)
		}
		p := storedPart{id: state[at : at+11], kind: kind(b[at] & kindBits), entry: otherEntry}
		if p.kind.isLog() {
			if at+logEntry > head {
				return nil, fmt.Errorf("a log at %d, of %d bytes of entries", at, head)
			}
			p.entry, p.id = logEntry, state[at:at+5]
			p.group, p.width = number(1), int(uint48(b[at+5:]))
			p.span, p.keep = uint48(b[at+15:]), number(20)&0xffffff
			p.room, p.deficits, p.used, p.fill = number(41)&0xffffff, int(b[at+45]),
				number(49)&0xffffff, number(52)&0xffffff
			p.slots = data
			data += int(p.room) * p.width
			if p.used > p.room || data+deficitBytes*p.deficits > len(b) {
				return nil, fmt.Errorf("%d slots in room for %d, %d deficits", p.used, p.room, p.deficits)
			}
			p.trailing = state[p.slots+int(p.used)*p.width : data]
			data += deficitBytes * p.deficits
		}
		at += p.entry
		parts = append(parts, p)
	}
	if at != head || data != len(b) {
		return nil, fmt.Errorf("entries to %d of %d, data to %d of %d", at, head, data, len(b))
	}
	return parts, nil
}

// decoded returns the parts of the subject's state; none without a state.
func (s *subject) decoded(t rapid.TB) []storedPart {
	t.Helper()
	state := s.bytes(t)
	if state == "" {
		return nil
	}
	parts, err := decodeStored(state)
	if err != nil {
		s.fail(t, "%v: %x", err, state)
	}
	return parts
}

// mostSlots returns the documented maximum room of a log: a tenth more slots than the
// limit needs, plus 4.
func mostSlots(requests, group int64) int64 { return (requests+group-1)/group*11/10 + 1 }

// mostRoom returns the documented room of a log after a rewrite: half as many slots again
// plus 8, at most mostSlots or what it uses. A log of one slot has room for 2 more.
func mostRoom(used, requests, group int64) int64 {
	if used <= 1 {
		return 3
	}
	return max(used, min(used*3/2+8, mostSlots(max(requests, used*group), group)))
}

// A state has the length of its layout, which decodeStored checks. Each part is in it
// once, slots that are not used are zero after a rewrite, a log has at most the documented
// room and keeps at most twice as many slots as its largest limit has, and one.
func TestBytesEqualTheFormula(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		most := map[string]int64{} // largest number of slots that a log ever needed
		for range events(t) {
			sections, _ := sectionsOf(s.limits, nil)
			for _, sec := range sections {
				if !sec.kind.isLog() {
					continue
				}
				id := string(binary.BigEndian.AppendUint32([]byte{sec.kindByte()}, uint32(sec.group)))
				most[id] = max(most[id], sec.slots())
			}
			s.event(t)
			seen := map[string]bool{}
			for _, p := range s.decoded(t) {
				if seen[p.id] {
					s.fail(t, "part %x is twice in the state", p.id)
				}
				seen[p.id] = true
				if !p.kind.isLog() {
					continue
				}
				slots := max(most[p.id], 1)
				if p.keep > 2*slots+1 || p.used > p.room || p.room > max(3, mostSlots(2*slots+1, 1)) ||
					p.deficits > maxDeficits {
					s.fail(t, "log %x of at most %d slots: %+v", p.id, slots, p)
				}
			}
		}
	})
}

// After the first call that rewrites its state, a log alone has exactly the documented
// room, and its free slots are zero.
func TestRoomOfALog(t *testing.T) {
	clock := newClocked(t)
	for _, limit := range []Limit{
		{Requests: 300, Window: time.Second}, {Requests: 700, Window: time.Second, Slots: MinSlots},
		{Requests: 2000, Window: time.Hour, CountDenied: true}, {Requests: 1, Window: 300 * time.Hour},
	} {
		s, room := clock.subject(limit), int64(0)
		for range 3 * limit.Requests {
			s.now = s.now.Add(time.Microsecond)
			s.log = nil
			s.do(t, 1)
			p := s.decoded(t)[0]
			if p.room != room && p.room != mostRoom(p.used, limit.Requests, limit.group()) {
				t.Fatalf("%s: got room for %d at %d used slots, want %d", limit, p.room, p.used,
					mostRoom(p.used, limit.Requests, limit.group()))
			}
			if p.room != room && strings.Trim(p.trailing, "\x00") != "" {
				t.Fatalf("%s: got %x after the used slots, want zeros", limit, p.trailing)
			}
			room = p.room
		}
		if most := mostSlots(limit.Requests, limit.group()) + limit.group(); room > most {
			t.Errorf("%s: got room for %d slots, want at most %d", limit, room, most)
		}
	}
}

// maxBytes returns the documented bound of a state's bytes. It depends only on the
// limits.
func maxBytes(limits []Limit) int {
	sections, _ := sectionsOf(limits, nil)
	total := stateHead
	for _, sec := range sections {
		total += otherEntry
		if sec.kind.isLog() {
			total += logEntry - otherEntry + int(sec.width())*int(mostSlots(sec.keep, 1))
		}
	}
	return total
}

// A state never exceeds the bound of its limits, however many calls there are.
func TestBytesAreBounded(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			if rapid.IntRange(0, 4).Draw(t, "event") == 0 {
				s.advance(t)
				s.expire(t)
			} else {
				s.do(t, s.cost(t))
			}
			if n := len(s.bytes(t)); n > maxBytes(s.limits) {
				s.fail(t, "got a state of %d bytes, want at most %d", n, maxBytes(s.limits))
			}
		}
	})
}

// A cost that is taken even where it does not fit leaves a log with at most twice the
// slots of its limit, and one.
func TestForcedCostsAreBounded(t *testing.T) {
	s := newClocked(t).subject(Limit{Requests: 100, Window: time.Minute})
	for range 30 {
		s.now = s.now.Add(time.Millisecond)
		s.force = true
		s.do(t, 90)
	}
	if p := s.decoded(t)[0]; p.keep != 201 || p.used > 201+90 || p.room > 201+90 {
		t.Errorf("got %+v, want at most 201 kept slots and 90 of the last call", p)
	}
	if u := s.do(t, 0).Limits[0]; u.Remaining != 0 || u.Owed != 100 {
		t.Errorf("got %+v, want 100 owed", u)
	}
}

// A list of limits that is gone leaves its parts in the state until they expire, at most
// two windows after their last call. A state never has more than maxParts.
func TestPartsOfOtherListsDisappear(t *testing.T) {
	clock := newClocked(t)
	for _, old := range []Limit{
		{Requests: 650, Window: time.Minute, Slots: MinSlots},
		{Requests: 9, Window: time.Minute, CountDenied: true},
		{Requests: 9, Window: time.Minute, Algorithm: Counter},
		{Requests: 9, Window: time.Minute, Algorithm: TokenBucket},
		{Requests: 9, Window: time.Minute, Algorithm: FixedWindow},
		{Requests: 9, Algorithm: FixedWindow, Calendar: Minute},
		{Requests: 9, Window: time.Minute, Shadow: true},
	} {
		s := clock.subject(old)
		s.do(t, 1)
		s.limits = []Limit{{Requests: 5, Window: time.Second}}
		if !old.Shadow {
			s.do(t, 1)
			if n := len(s.decoded(t)); n != 2 {
				t.Errorf("%+v: got %d parts after an edit, want 2", old, n)
			}
		}
		for range 130 { // a rewrite each second
			s.now = s.now.Add(time.Second)
			s.do(t, 1)
		}
		if n := len(s.decoded(t)); n != 1 {
			t.Errorf("%+v: got %d parts two windows after an edit, want 1", old, n)
		}
	}
	s := clock.subject(Limit{Requests: 1, Window: time.Second})
	for i := range int64(50) {
		s.limits = []Limit{{Requests: 100 + i, Window: time.Minute, Algorithm: TokenBucket}}
		s.do(t, 1)
		if n := len(s.decoded(t)); n > maxParts || i > maxParts && n != maxParts {
			t.Errorf("got %d parts after %d edits, want at most %d", n, i, maxParts)
		}
	}
}

// The time to live covers every window that still counts something, and is at most two
// windows and two milliseconds of the limits that the state has. The test deletes the key
// when it expires in virtual time, and the decisions still equal those of the model, which
// never deletes its state.
func TestTimeToLiveCoversEveryPart(t *testing.T) {
	clock := newClocked(t)
	for _, edits := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			s := clock.subject(drawLimits(t)...)
			s.checkLives(t, edits)
		})
	}
}

// checkLives makes random events and checks the decisions and times to live.
func (s *subject) checkLives(t *rapid.T, edits bool) {
	t.Helper()
	var model Model
	longest := s.longest()
	for range events(t) {
		switch rapid.IntRange(0, 7).Draw(t, "event") {
		case 0, 1:
			if s.forward(t) {
				s.expectEmpty(t, model)
				model = Model{}
			}
		case 2:
			if edits {
				s.edit(t)
				longest = max(longest, s.longest())
			}
		default:
			s.checkLife(t, &model, s.cost(t)*rapid.Int64Range(0, 1).Draw(t, "take"), longest)
		}
	}
}

// expectEmpty checks that no part of the model counts anything, because the state has
// expired.
func (s *subject) expectEmpty(t *rapid.T, model Model) {
	t.Helper()
	for _, p := range model.parts {
		counts := p.expires() > s.now.UnixMicro()
		if p.kind.isLog() {
			counts = !p.dead(s.now.UnixMicro())
		} else if p.kind == fixedKind && p.group != 0 {
			continue // its period may be shorter than the longest one
		}
		if counts {
			s.fail(t, "the state has expired, but part %+v of the model still counts", p.sectionID)
		}
	}
}

// forward moves the time forward, and deletes the key if it has expired.
func (s *subject) forward(t *rapid.T) (expired bool) {
	longest := s.longest().Microseconds()
	micros := rapid.OneOf(rapid.Int64Range(0, longest/5), rapid.Int64Range(longest-1, longest),
		rapid.Int64Range(longest, 3*longest)).Draw(t, "forward")
	s.now = s.now.Add(time.Duration(micros) * time.Microsecond)
	return s.expire(t)
}

// checkLife makes a step, compares its decision with the model's, and checks when the key
// expires.
func (s *subject) checkLife(t *rapid.T, model *Model, cost int64, longest time.Duration) {
	t.Helper()
	got := s.do(t, cost)
	want := model.Step(Step{Now: s.now, Limits: s.limits, Cost: cost})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.fail(t, "got %+v, want the model's %+v", got, want)
	}
	if s.writes == 0 {
		return
	}
	for i, u := range got.Limits {
		if until := s.now.Add(u.Reset); s.expiry.Before(until) {
			s.fail(t, "limit %d: the state expires %s before the window ends at %d", i, until.Sub(s.expiry),
				until.UnixMicro())
		}
	}
	if bound := 2*longest + 2*time.Millisecond; s.expiry.After(s.now.Add(bound)) {
		s.fail(t, "got a time to live of %s, want at most %s", s.expiry.Sub(s.now), bound)
	}
}

// The server's memory for a key whose limit is used up is within the published figures.
// It includes the key's name and the server's overhead.
func TestMemoryOfAKey(t *testing.T) {
	clock := newClocked(t)
	name := (&Limiter{prefix: "tg:"}).stateKey("caller")
	for _, c := range []struct {
		limits []Limit
		calls  int64 // at most
		bytes  int64
	}{
		{[]Limit{{Requests: 100, Window: time.Minute}}, 1, 160},
		{[]Limit{{Requests: 100, Window: time.Minute}}, 100, 720},
		{[]Limit{{Requests: 100, Window: time.Minute, Algorithm: Counter}}, 100, 128},
		{[]Limit{{Requests: 100, Window: time.Minute, Algorithm: Counter},
			{Requests: 9000, Window: 24 * time.Hour, Algorithm: FixedWindow}}, 100, 160},
		{[]Limit{{Requests: 10_000, Window: time.Minute}}, 10_000, 60_000},
		{[]Limit{{Requests: 1_000_000_000, Window: time.Minute}}, 10_000, 60_000},
	} {
		s := clock.subject(c.limits...)
		s.key = name
		s.command(t, "DEL", name)
		for range c.calls {
			s.do(t, max(1, c.limits[0].Requests/10_000))
			s.now = s.now.Add(time.Microsecond)
			s.log = nil
		}
		used, err := s.client.Do(t.Context(), s.client.B().MemoryUsage().Key(name).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if used > c.bytes {
			t.Errorf("%v: got %d bytes, want at most %d", c.limits, used, c.bytes)
		}
		t.Logf("%v, %d calls: %d bytes of memory for a state of %d bytes", c.limits, c.calls, used,
			len(s.bytes(t)))
	}
}
