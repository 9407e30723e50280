package limiter

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stored is a decoded state.
type stored struct {
	length   int
	sections []storedSection
}

// storedSection is a section of a state. For a section that is not a log, only the fields
// to span are set.
type storedSection struct {
	kind                     kind
	group                    int64
	width                    int
	span                     time.Duration
	capacity, used, fill     int
	slots                    []int64 // low bits of the slots' times
	trailing                 string  // bytes after the used slots
	rewritten, offset, keeps int64
}

// Lengths in the header of readstate.lua, in bytes.
const (
	storedHead  = 2  // signature without its sections
	storedLog   = 30 // numbers of a log
	storedOther = 15 // numbers of another section
)

// decodeStored decodes a state in the layout of the header of readstate.lua,
// independently of the script. It returns an error if bytes are missing or left over.
func decodeStored(state string) (stored, error) {
	b := []byte(state)
	if len(b) < storedHead || len(b) < storedHead+sectionLen*int(b[1]) {
		return stored{}, fmt.Errorf("%d bytes are too few for a signature", len(b))
	}
	st := stored{length: len(b), sections: make([]storedSection, b[1])}
	at := storedHead + sectionLen*len(st.sections)
	for i := range st.sections {
		sec, entry := &st.sections[i], b[storedHead+sectionLen*i:]
		*sec = storedSection{kind: kind(entry[0]), group: int64(binary.BigEndian.Uint32(entry[1:])),
			width: int(entry[5])}
		sec.span = time.Duration(uint48(entry[6:])) * time.Microsecond
		if !sec.kind.isLog() {
			at += storedOther
			continue
		}
		if len(b) < at+storedLog {
			return stored{}, fmt.Errorf("%d bytes end within section %d", len(b), i)
		}
		sec.readLog(b[at : at+storedLog])
		at += storedLog
	}
	for i := range st.sections {
		sec := &st.sections[i]
		end := at + sec.capacity*sec.width
		if end > len(b) {
			return stored{}, fmt.Errorf("%d bytes end within the slots of section %d, which end at %d",
				len(b), i, end)
		}
		sec.readSlots(b[at:end])
		at = end
	}
	if at != len(b) {
		return stored{}, fmt.Errorf("%d bytes follow the last slot", len(b)-at)
	}
	return st, nil
}

func (sec *storedSection) readLog(b []byte) {
	number := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
	sec.rewritten, sec.offset = uint56(b), uint56(b[7:])
	sec.capacity, sec.used, sec.fill, sec.keeps = number(14), number(18), number(22), int64(number(26))
}

func (sec *storedSection) readSlots(b []byte) {
	for len(b) > 0 && b[0]&0x80 != 0 {
		sec.slots = append(sec.slots, int64(binary.BigEndian.Uint64(slices.Concat(make([]byte, 8-sec.width),
			b[:sec.width]))))
		b = b[sec.width:]
	}
	sec.trailing = string(b)
}

// mostSlots returns the documented maximum capacity of a log: a tenth more slots than the
// limit needs, plus 4.
func mostSlots(requests, group int64) int64 {
	return (requests+group-1)/group*11/10 + 4
}

// room returns the documented capacity of a log after a rewrite with live slots: half as
// many slots again plus 8, at most mostSlots. A log of one slot has room for 2 more.
func room(live, requests, group int64) int64 {
	if live <= 1 {
		return 3
	}
	return max(live, min(live*3/2+8, mostSlots(requests, group)))
}

// requestsOf returns the largest limit of a section.
func requestsOf(limits []Limit, section int) int64 {
	_, of := sectionsOf(limits)
	var requests int64
	for i, l := range limits {
		if of[i] == section {
			requests = max(requests, l.Requests)
		}
	}
	return requests
}

// A state has the length of its layout, its free slots are zero, and after each rewrite a
// log has the documented room.
func TestBytesEqualTheFormula(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		var before stored
		for range events(t) {
			s.rewritten = false
			s.event(t)
			state := s.bytes(t)
			if state == "" {
				continue
			}
			after, err := decodeStored(state)
			if err != nil {
				s.fail(t, "%v: %x", err, state)
			}
			s.checkRoom(t, before, after)
			before = after
		}
	})
}

// checkRoom checks the lengths in a state, given the state before the last event.
func (s *subject) checkRoom(t *rapid.T, before, after stored) {
	t.Helper()
	length := storedHead
	for i := range after.sections {
		sec := &after.sections[i]
		length += sectionLen
		if !sec.kind.isLog() {
			length += storedOther
			continue
		}
		length += storedLog + sec.capacity*sec.width
		if strings.Trim(sec.trailing, "\x00") != "" {
			s.fail(t, "section %d: got %x after the first free slot, want zeros", i,
				strings.TrimLeft(sec.trailing, "\x00"))
		}
		if !s.rewritten {
			if sec.capacity != before.sections[i].capacity {
				s.fail(t, "section %d: got capacity %d without a rewrite, want %d", i, sec.capacity,
					before.sections[i].capacity)
			}
			continue
		}
		if len(after.sections) > 1 && sec.keptRoom(before, i) {
			continue
		}
		requests := requestsOf(s.limits, i)
		if want := room(int64(len(sec.slots)), requests, sec.group); int64(sec.capacity) != want {
			s.fail(t, "section %d: got capacity %d for %d slots of limit %d, want %d", i, sec.capacity,
				len(sec.slots), requests, want)
		}
	}
	if length != after.length {
		s.fail(t, "got %d bytes, want %d", after.length, length)
	}
}

// keptRoom reports whether a log has the capacity that it had before. A rewrite because
// of another section does not change it.
func (sec *storedSection) keptRoom(before stored, i int) bool {
	if i >= len(before.sections) {
		return false
	}
	was := before.sections[i]
	return sec.kind == was.kind && sec.group == was.group && sec.span == was.span &&
		sec.capacity == was.capacity
}

// maxBytes returns the documented bound of a state's bytes. It depends only on the
// limits.
func maxBytes(limits []Limit) int {
	sections, _ := sectionsOf(limits)
	total := storedHead
	for i, sec := range sections {
		total += sectionLen + storedOther
		if sec.kind.isLog() {
			total += storedLog - storedOther +
				int(sec.width())*int(mostSlots(requestsOf(limits, i), sec.group))
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

// Across edits, no log has more slots than the largest limit that the subject ever had
// needs.
func TestSlotsAreBoundedAcrossEdits(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		most := int64(0)
		for range events(t) {
			most = max(most, bound(s.limits))
			s.event(t)
			most = max(most, bound(s.limits))
			if n := s.capacity(t); n > most {
				s.fail(t, "got a log of %d slots, want at most %d", n, most)
			}
		}
	})
}

// After an edit from grouped slots to a slot per call, the log has at most DefaultSlots.
func TestSlotsAreBoundedWhenAGroupedLogIsLowered(t *testing.T) {
	s := newClocked(t).subject(Limit{Requests: 1_000_000, Window: time.Minute, Slots: MinSlots})
	s.do(t, 1_000_000)
	s.limits = []Limit{{Requests: 10, Window: time.Minute}}
	s.do(t, 1)
	if n := s.capacity(t); n > DefaultSlots {
		s.fail(t, "got %d slots for a limit of 10, want at most %d", n, DefaultSlots)
	}
}

// capacity returns the capacity of the subject's longest log.
func (s *subject) capacity(t rapid.TB) int64 {
	t.Helper()
	state := s.bytes(t)
	if state == "" {
		return 0
	}
	decoded, err := decodeStored(state)
	if err != nil {
		s.fail(t, "%v: %x", err, state)
	}
	longest := 0
	for _, sec := range decoded.sections {
		longest = max(longest, sec.capacity)
	}
	return int64(longest)
}

// bound returns the maximum capacity of a log of these limits, or of a log after an edit
// that carries their calls over to a slot each.
func bound(limits []Limit) int64 {
	var slots int64
	for _, l := range limits {
		if l.Algorithm == Log {
			slots = max(slots, mostSlots(l.Requests, l.group()), min(l.Requests+2*l.group(), DefaultSlots))
		}
	}
	return slots
}

// The time to live covers every window that still counts something, and is at most two
// windows and two milliseconds. The test deletes the key when it expires in virtual time,
// and the decisions still equal those of the model, which never deletes its state.
func TestTimeToLiveCoversEveryWindow(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		s.checkLives(t, func() {})
	})
}

// The same holds across edits. Calendars are left out: the count of a calendar that an
// edit removes is kept until the key expires.
func TestTimeToLiveCoversEveryWindowAcrossEdits(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		s.dropCalendars()
		s.checkLives(t, func() {
			s.edit(t)
			s.dropCalendars()
		})
	})
}

// dropCalendars replaces calendars by windows of a minute.
func (s *subject) dropCalendars() {
	for i, l := range s.limits {
		if l.Calendar != NoCalendar {
			s.limits[i] = Limit{Requests: l.Requests, Window: time.Minute, Algorithm: FixedWindow}
		}
	}
}

// checkLives makes random events, with edit for edits, and checks the decisions and times
// to live.
func (s *subject) checkLives(t *rapid.T, edit func()) {
	t.Helper()
	var model Model
	for range events(t) {
		switch rapid.IntRange(0, 7).Draw(t, "event") {
		case 0, 1:
			s.forward(t)
		case 2:
			edit()
		default:
			s.checkLife(t, &model, s.cost(t)*rapid.Int64Range(0, 1).Draw(t, "take"))
		}
	}
}

// forward moves the time forward, and deletes the key if it has expired.
func (s *subject) forward(t *rapid.T) {
	longest := s.longest().Microseconds()
	micros := rapid.OneOf(rapid.Int64Range(0, longest/5), rapid.Int64Range(longest-1, longest),
		rapid.Int64Range(longest, 3*longest)).Draw(t, "forward")
	s.now = s.now.Add(time.Duration(micros) * time.Microsecond)
	s.expire(t)
}

// checkLife makes a step, compares its decision with the model's, and checks when the key
// expires.
func (s *subject) checkLife(t *rapid.T, model *Model, cost int64) {
	t.Helper()
	got := s.do(t, cost)
	want := model.Peek(s.now, s.limits)
	if cost > 0 {
		want, _ = model.Take(s.now, s.limits, cost)
	}
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
	if bound := 2*s.longest() + 2*time.Millisecond; s.expiry.After(s.now.Add(bound)) {
		s.fail(t, "got a time to live of %s, want at most %s", s.expiry.Sub(s.now), bound)
	}
}

// The server's memory for a key whose limit is used up is within the published figures.
// It includes the key's name and the server's overhead.
func TestMemoryOfAKey(t *testing.T) {
	clock := newClocked(t)
	name := (&Limiter{prefix: "tg:"}).stateKey("caller")
	for _, c := range []struct {
		limit Limit
		bytes int64
	}{
		{Limit{Requests: 100, Window: time.Minute}, 600},
		{Limit{Requests: 100, Window: time.Minute, Algorithm: Counter}, 96},
		{Limit{Requests: 10_000, Window: time.Minute}, 60_000},
		{Limit{Requests: 1_000_000_000, Window: time.Minute}, 60_000},
	} {
		s := clock.subject(c.limit)
		s.key = name
		s.command(t, "DEL", name)
		step := max(1, c.limit.Requests/10_000)
		for range c.limit.Requests / step {
			s.do(t, step)
			s.now = s.now.Add(time.Microsecond)
			s.log = nil
		}
		used, err := s.client.Do(t.Context(), s.client.B().MemoryUsage().Key(name).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if used > c.bytes {
			t.Errorf("%s, %s: got %d bytes, want at most %d", c.limit.Algorithm, c.limit, used, c.bytes)
		}
		t.Logf("%s, %s: %d bytes of memory for a state of %d bytes", c.limit.Algorithm, c.limit, used,
			len(s.bytes(t)))
	}
}
