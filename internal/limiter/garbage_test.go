package limiter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// exhaust takes as much as it can at one instant, and returns the admitted cost. Each
// call costs at most a thousandth of the smallest limit plus 1. It stops after 24 denials
// in a row, or when more than most is admitted.
func (s *subject) exhaust(t rapid.TB, most int64) (admitted int64) {
	t.Helper()
	cost := 1 + s.smallestLimit()/1000
	for denied := 0; denied < 24 && admitted <= most; {
		if s.do(t, cost).Allowed {
			admitted, denied = admitted+cost, 0
		} else {
			cost = max(1, cost/2)
			denied++
		}
	}
	return admitted
}

// checkRecovers stores bytes as the state, without a time to live, so that only the
// script can replace them. It checks that at most twice the limit is admitted at one
// instant: once more if the script detects the damage late. Two windows later the limit
// must hold again.
func (s *subject) checkRecovers(t rapid.TB, state []byte, first int64) {
	t.Helper()
	s.limits = slices.Clone(s.limits)
	s.limits[0].Calls = false // a limit of cost bounds the cost that is admitted
	s.log = append(s.log, fmt.Sprintf("state %x", state))
	s.command(t, "SET", s.key, string(state))
	if len(state) == 0 {
		s.command(t, "DEL", s.key)
	}
	admitted := int64(0)
	if s.do(t, first).Allowed {
		admitted = max(0, first)
	}
	if admitted += s.exhaust(t, 2*s.smallestLimit()); admitted > 2*s.smallestLimit() {
		s.fail(t, "got %d admitted at one instant, want at most %d", admitted, 2*s.smallestLimit())
	}
	s.now = s.now.Add(2*s.longest() + 2*time.Millisecond)
	if d := s.do(t, 1); !d.Allowed {
		s.fail(t, "two windows later: denied for %s, want allowed", d.RetryAfter())
	}
	if n := 1 + s.exhaust(t, s.smallestLimit()); n > s.smallestLimit() {
		s.fail(t, "two windows later: got %d admitted at one instant, want at most %d", n, s.smallestLimit())
	}
}

// With a damaged state no call fails, at most twice the limit is admitted at once, and
// two windows later the limit holds again.
func TestDamagedStates(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		for range events(t) {
			s.event(t)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		state := damage(r, []byte(s.bytes(t)))
		if rapid.Bool().Draw(t, "edit") {
			s.edit(t)
		}
		s.checkRecovers(t, state, rapid.SampledFrom([]int64{-1, 0, 1}).Draw(t, "first"))
	})
}

// damage changes random bytes: it flips bits, and overwrites, clears, copies, deletes and
// repeats bytes.
func damage(r *rand.Rand, state []byte) []byte {
	for range r.IntN(4) {
		if len(state) == 0 {
			return state
		}
		at := r.IntN(len(state))
		end := min(len(state), at+1+r.IntN(12))
		switch r.IntN(7) {
		case 0:
			state[at] ^= 1 << r.IntN(8)
		case 1:
			state[at] = byte(r.IntN(256))
		case 2:
			clear(state[at:end])
		case 3:
			copy(state[at:end], state[r.IntN(len(state)):])
		case 4:
			state = slices.Delete(state, at, end)
		case 5:
			state = slices.Insert(state, at, bytes.Clone(state[at:end])...)
		case 6:
			state = state[:at]
		}
	}
	return state
}

// The same holds for a state with the parts of the program and random numbers, slots and
// deficits in them.
func TestForgedStates(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		s := clock.subject(drawLimits(t)...)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		state := forge(r, s.now, s.limits)
		if rapid.Bool().Draw(t, "edit") {
			s.edit(t)
		}
		s.checkRecovers(t, state, rapid.SampledFrom([]int64{-1, 0, 1}).Draw(t, "first"))
	})
}

// forge returns a state in the layout of Model's comment, with the parts of some limits
// and random numbers: small ones, huge ones, and times before now. Some parts are missing,
// repeated or of an unknown kind.
func forge(r *rand.Rand, now time.Time, limits []Limit) []byte {
	sections, _ := sectionsOf(limits, nil)
	entries, data, parts := []byte{}, []byte{}, 0
	for _, sec := range sections {
		for range 1 + r.IntN(10)/9 - r.IntN(10)/9 {
			begin := len(entries)
			entries = binary.BigEndian.AppendUint32(append(entries, sec.kindByte()), uint32(sec.group))
			parts++
			if !sec.kind.isLog() {
				entries = appendNumbers(r, appendUint48(entries, sec.window), now, 4, 7, 4, 4)
			} else {
				width, room, deficits := int(sec.width()), r.IntN(40), 0
				if r.IntN(4) == 0 {
					room = r.IntN(1000)
				}
				if r.IntN(4) == 0 {
					deficits = r.IntN(maxDeficits)
				}
				entries = appendNumbers(r, appendUint48(entries, int64(width)), now, 4)
				entries = appendUint48(entries, []int64{1, sec.span, sec.span / 2, 1<<48 - 1}[r.IntN(4)])
				entries = appendNumbers(r, entries, now, 3, 4, 7, 7)
				entries = append(appendNumber(entries, uint64(room), 3), byte(deficits))
				entries = appendNumbers(r, entries, now, 4)
				used := []uint64{0, uint64(r.IntN(room + 1)), uint64(room), r.Uint64()}[r.IntN(4)]
				entries = appendNumber(entries, used, 3)
				entries = appendNumber(entries, []uint64{1, uint64(sec.group), r.Uint64()}[r.IntN(3)], 3)
				for range room {
					data = appendSlot(r, data, now, width)
				}
				for range deficits {
					data = appendNumbers(r, data, now, 7, 4)
				}
			}
			if r.IntN(20) == 0 {
				entries[begin] = byte(r.IntN(256))
			}
		}
	}
	number := byte(parts)
	if r.IntN(20) == 0 {
		number = 255
	}
	head := appendNumber([]byte{1, number}, uint64(stateHead+len(entries)), 2)
	return slices.Concat(head, entries, data)
}

// logState returns the state of a log with valid numbers and these slots: 0 is a free
// slot, other numbers are the age of the slot in seconds.
func (s *subject) logState(secondsAgo ...int64) []byte {
	sections, _ := sectionsOf(s.limits, nil)
	sec, n := sections[0], uint64(len(secondsAgo))
	state := appendNumber([]byte{1, 1, 0, stateHead + logEntry, sec.kindByte()}, uint64(sec.group), 4)
	for _, number := range [][2]uint64{
		{uint64(sec.width()), 6}, {0, 4}, {uint64(sec.span), 6}, {uint64(sec.keep), 3},
		{0, 4}, {uint64(s.now.UnixMicro()), 7}, {0, 7}, {n, 3}, {0, 1}, {0, 4}, {n, 3}, {1, 3},
	} {
		state = appendNumber(state, number[0], int(number[1]))
	}
	for _, ago := range secondsAgo {
		at := len(state)
		if state = appendNumber(state, uint64(s.now.UnixMicro()-ago*1_000_000), 4); ago == 0 {
			clear(state[at:])
		} else {
			state[at] |= 0x80
		}
	}
	return state
}

// Free slots between used ones, which the scripts never leave, do not admit more than a
// damaged state may.
func TestGapsBetweenSlotsAdmitNoMore(t *testing.T) {
	clock := newClocked(t)
	for _, secondsAgo := range [][]int64{{0, 110, 100, 90}, {90, 0, 110, 100}, {59, 0, 0, 110}} {
		for _, requests := range []int64{2, 3, 5} {
			s := clock.subject(Limit{Requests: requests, Window: time.Minute})
			s.checkRecovers(t, s.logState(slices.Repeat(secondsAgo, 15)...), 1)
		}
	}
}

// Slots out of order deny calls for at most two windows.
func TestSlotsOutOfOrderRecover(t *testing.T) {
	s := newClocked(t).subject(Limit{Requests: 2, Window: time.Minute})
	s.checkRecovers(t, s.logState(-900, 300), 1)
}

// Numbers of slots, rooms, parts and bytes that a state cannot have do not keep the server
// busy, nor make it allocate memory.
func TestHugeNumbers(t *testing.T) {
	clock := newClocked(t)
	limits := []Limit{{Requests: 130, Window: time.Minute, Slots: MinSlots},
		{Requests: 9, Window: time.Minute, Algorithm: Counter}}
	other := []Limit{{Requests: 9, Window: time.Hour}, {Requests: 9, Window: time.Hour, Shadow: true}}
	for at := range stateHead + logEntry + otherEntry {
		for _, huge := range []string{"\x7f", "\xff", "\xff\xff", "\xff\xff\xff\xff",
			"\x7f\xff\xff\xff\xff\xff\xff"} {
			for _, zeros := range []int{0, 3000} {
				s := clock.subject(limits...)
				s.do(t, 3)
				s.do(t, 3)
				state := append([]byte(s.bytes(t)), make([]byte, zeros)...)
				copy(state[at:], huge)
				for _, edited := range [][]Limit{limits, other} {
					s := clock.subject(edited...)
					s.command(t, "SET", s.key, string(state))
					began := time.Now()
					for _, cost := range []int64{0, 1, -1, 1} {
						s.do(t, cost)
					}
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("%x at %d, %d zeros: four calls took %s", huge, at, zeros, took)
					}
					if n := len(s.bytes(t)); n > 8000 {
						t.Errorf("%x at %d, %d zeros: got a state of %d bytes", huge, at, zeros, n)
					}
				}
			}
		}
	}
}

// appendNumbers appends a random number of each width in bytes.
func appendNumbers(r *rand.Rand, b []byte, now time.Time, widths ...int) []byte {
	for _, width := range widths {
		b = appendNumber(b, []uint64{0, 1, uint64(r.IntN(2000)), r.Uint64(), ^uint64(0),
			uint64(now.UnixMicro() - r.Int64N(1e9))}[r.IntN(6)], width)
	}
	return b
}

// appendSlot appends a random slot of a width in bytes.
func appendSlot(r *rand.Rand, b []byte, now time.Time, width int) []byte {
	number := []uint64{0, r.Uint64(), uint64(now.UnixMicro() - r.Int64N(1e9)),
		uint64(now.UnixMicro() + r.Int64N(1e9))}[r.IntN(4)]
	at := len(b)
	b = appendNumber(b, number, width)
	if number != 0 {
		b[at] |= 0x80
	}
	return b
}

// appendNumber appends the low width bytes of a number, big-endian.
func appendNumber(b []byte, number uint64, width int) []byte {
	for i := width - 1; i >= 0; i-- {
		b = append(b, byte(number>>(8*i)))
	}
	return b
}

// If the key of a state has a value of another type, every operation returns WRONGTYPE
// until the value is deleted.
func TestStatesOfOtherTypes(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	l, err := New(client, "tg:", Limit{Requests: 2, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"LPUSH", "a"}, {"SADD", "a"}, {"HSET", "a", "b"}, {"ZADD", "1", "a"},
		{"XADD", "*", "a", "b"}} {
		key := words[0]
		s := subject{history: history{client: client}}
		s.command(t, slices.Concat(words[:1], []string{l.stateKey(key)}, words[1:])...)
		for name, step := range steps(t, l, key) {
			if _, err := step(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") ||
				!strings.HasPrefix(err.Error(), "limiter: ") {
				t.Errorf("%s after %s: got error %v, want WRONGTYPE", name, words[0], err)
			}
		}
		s.command(t, "DEL", l.stateKey(key))
		if d, err := l.Take(t.Context(), key, 1); err != nil || !d.Allowed {
			t.Errorf("after its deletion: got %v, %v, want allowed", d, err)
		}
	}
}

// steps returns the operations of a Limiter that make a step.
func steps(t *testing.T, l *Limiter, key string) map[string]func() (Decision, error) {
	return map[string]func() (Decision, error){
		"Take": func() (Decision, error) { return l.Take(t.Context(), key, 1) },
		"Peek": func() (Decision, error) { return l.Peek(t.Context(), key) },
		"Refund": func() (Decision, error) {
			return l.Refund(t.Context(), key, 1, Decision{Now: time.Unix(1, 0)})
		},
	}
}

// fuzzShapes has the lists of limits of FuzzState and FuzzProgram.
var fuzzShapes = [][]Limit{
	{{Requests: 3, Window: time.Minute}},
	{{Requests: 200, Window: time.Minute, Slots: MinSlots}},
	{{Requests: 3, Window: time.Minute, CountDenied: true}},
	{{Requests: 3, Window: time.Minute, Algorithm: Counter}},
	{{Requests: 3, Window: time.Minute, Algorithm: TokenBucket}},
	{{Requests: 3, Window: time.Minute, Algorithm: FixedWindow}},
	{{Requests: 3, Algorithm: FixedWindow, Calendar: Day, Zone: "Europe/Berlin"}},
	{{Requests: 3, Window: time.Minute}, {Requests: 20, Window: time.Hour},
		{Requests: 100, Window: 24 * time.Hour, Algorithm: Counter}},
	{{Requests: 3, Window: time.Second, CountDenied: true},
		{Requests: 20, Window: time.Hour, Algorithm: TokenBucket}},
	{{Requests: 900, Window: time.Hour}},
}

// FuzzState checks that no stored bytes make a call fail, and that two windows later the
// limit holds again.
func FuzzState(f *testing.F) {
	clock := newClocked(f)
	for shape, limits := range fuzzShapes {
		s := clock.subject(limits...)
		for range 7 {
			s.do(f, 1)
		}
		f.Add([]byte(s.bytes(f)), uint8(shape))
		f.Add([]byte(s.bytes(f)), uint8(shape+1))
		f.Add([]byte("17"), uint8(shape))
	}
	f.Fuzz(func(t *testing.T, state []byte, shape uint8) {
		clock.subject(fuzzShapes[int(shape)%len(fuzzShapes)]...).checkRecovers(t, state, 1)
	})
}

// FuzzProgram checks that any bytes are either refused as a Program, or have limits that
// compile to a Program of the same limits. Zones that are unknown here do not count.
func FuzzProgram(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	for _, limits := range fuzzShapes {
		program, err := Compile(limits, now)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(program))
		f.Add([]byte(program[:len(program)-1]))
		for i := range program {
			for _, rejected := range []byte{0, 1, 0xff} {
				f.Add(slices.Concat([]byte(program[:i]), []byte{rejected}, []byte(program[i+1:])))
			}
		}
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		limits, err := Program(program).Limits()
		if err != nil {
			if !errors.Is(err, ErrProgram) || limits != nil {
				t.Fatalf("got %v, error %v, want none and ErrProgram", limits, err)
			}
			return
		}
		for i := range limits {
			if limits[i].Validate() != nil {
				limits[i].Zone = ""
			}
		}
		compiled, err := Compile(limits, now)
		if err != nil {
			t.Fatalf("Compile(%v): %v", limits, err)
		}
		if again, err := compiled.Limits(); err != nil || !slices.Equal(again, limits) {
			t.Fatalf("compiled again: got %v, %v; want %v", again, err, limits)
		}
	})
}

// A reply with a time that overflows a Duration, and so would be negative, is refused.
func TestParseReplyTimeOutOfRange(t *testing.T) {
	reply := make([]byte, replyHead+replyUsage)
	reply[replyHead+4] = 0xff
	if d, err := ParseReply(reply, make([]Limit, 1)); !errors.Is(err, ErrReply) {
		t.Errorf("got %+v, %v; want %v", d, err, ErrReply)
	}
}

// FuzzParseReply checks that any bytes are either refused as a reply, or decoded as a
// Decision for the number of limits, without negative numbers.
func FuzzParseReply(f *testing.F) {
	f.Add([]byte{2, 0, 6, 1, 2, 3, 4, 5}, uint8(1))
	f.Add(append([]byte{1, 0, 6, 1, 2, 3, 4, 5}, make([]byte, 2*replyUsage)...), uint8(2))
	f.Add(append([]byte{1, 0, 6, 1, 2, 3, 4, 5}, make([]byte, replyUsage+4)...), uint8(1))
	f.Add([]byte{1}, uint8(1))
	f.Add(append([]byte{0, 0, 6, 1, 2, 3, 4, 5}, make([]byte, replyUsage)...), uint8(1))
	f.Fuzz(func(t *testing.T, reply []byte, n uint8) {
		limits := make([]Limit, n)
		d, err := ParseReply(reply, limits)
		if err != nil {
			if (!errors.Is(err, ErrReply) && !errors.Is(err, ErrCost)) || d.Limits != nil || d.Allowed {
				t.Fatalf("got %v, error %v, want no Decision and ErrReply or ErrCost", d, err)
			}
			return
		}
		whole := replyHead + replyUsage*int(n)
		if len(reply) != whole && len(reply) != whole+4 || len(d.Limits) != int(n) ||
			d.Allowed != (reply[0] != 0) {
			t.Fatalf("%d bytes %x... for %d limits: got %v, want an error", len(reply), reply[:1], n, d)
		}
		for _, u := range d.Limits {
			if u.Remaining < 0 || u.Reset < 0 || u.RetryAfter < 0 || u.Next < 0 || u.Owed < 0 {
				t.Fatalf("got %+v, want no negative number", u)
			}
		}
	})
}
