package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter/calendar"
)

// Program is a list of limits compiled for the scripts, which get it as an argument or
// read it from a record. Its layout is:
//
//	1 byte   number of limits
//	1 byte   length of a state's sections, between the signature and the slots
//	         signature: 1 byte version, 1 byte number of sections, then for each section
//	           1 byte kind (1 log, 2 log that counts denied calls, 3 counter, 4 token
//	           bucket, 5 fixed window), plus 8 for a limit in shadow mode, which shares
//	           no section
//	           4 bytes calls per slot of a log; calendar of a fixed window
//	           1 byte bytes per slot of a log
//	           6 bytes window (microseconds), for a log the longest of its limits
//	per limit, in the order given:
//	           4 bytes requests,
//	           1 byte number of its section (from 1), plus 128 for calendar weeks and
//	           years and for shadow mode, plus 64 if a refund must spare the limit,
//	           6 bytes window (microseconds), 3 bytes Slots
//	per section with a calendar:
//	           1 byte length of the zone's name, the name, 1 byte number of shifts,
//	           per shift 7 bytes start (microseconds since 1970),
//	           3 bytes offset east of UTC (seconds + 2^23)
//	thresholds of the limits, if there are any: see thresholdsMark
//
// Integers are big-endian. Releases without calendar weeks, calendar years and shadow
// mode refuse a number with the 128 before they change a state. Of this release's
// scripts, only the general step handles such a number.
type Program []byte

const (
	programVersion = 2
	sectionLen     = 12
	logLen         = 30 // bytes of a log in a state, without its slots
	countLen       = 15 // bytes of any other section in a state
	limitLen       = 14
	laterMark      = 128 // added to the number of a section: earlier releases refuse the program
	sparedMark     = 64  // added to the number of a section: a refund spares the limit
	shadowMark     = 8   // added to the kind of a section: the limit is in shadow mode
)

// ErrProgram means that bytes are not a Program.
var ErrProgram = errors.New("limiter: not a compiled program")

// Compile validates the limits and encodes them as a Program. The Program knows the time
// zones of its calendars for ten years after now.
func Compile(limits []Limit, now time.Time) (Program, error) {
	if err := ValidateAll(limits); err != nil {
		return nil, err
	}
	sections, of := sectionsOf(limits)
	p := make(Program, 0, 4+sectionLen*len(sections)+limitLen*len(limits))
	p = append(p, byte(len(limits)), headsLen(sections), programVersion, byte(len(sections)))
	for _, s := range sections {
		kind := byte(s.kind)
		if s.shadow {
			kind |= shadowMark
		}
		p = append(p, kind)
		if s.kind == fixedKind {
			p = binary.BigEndian.AppendUint32(p, uint32(s.calendar))
		} else {
			p = binary.BigEndian.AppendUint32(p, uint32(s.group))
		}
		p = append(p, s.width())
		p = appendUint48(p, s.span)
	}
	for i, l := range limits {
		p = binary.BigEndian.AppendUint32(p, uint32(l.Requests))
		p = append(p, byte(of[i]+1)|l.mark())
		p = appendUint48(p, l.Window.Microseconds())
		p = append(p, byte(l.Slots>>16), byte(l.Slots>>8), byte(l.Slots))
	}
	for _, s := range sections {
		if s.calendar != NoCalendar {
			p = appendZone(p, s.zone, s.calendar.Shifts(s.zone, now))
		}
	}
	return appendThresholds(p, limits), nil
}

// mark returns laterMark for a limit that earlier releases must refuse, otherwise 0.
func (l Limit) mark() byte {
	if l.Calendar > Month || l.Shadow {
		return laterMark
	}
	return 0
}

// Sparing returns the program for a refund that does not change some limits in shadow
// mode. Bit i of spared is for limit i; bits for enforced limits are ignored.
func (p Program) Sparing(spared byte) Program {
	if spared == 0 || len(p) < 4 {
		return p
	}
	p = slices.Clone(p)
	numbers := p[4+sectionLen*int(p[3]):]
	for i := range int(p[0]) {
		number := &numbers[limitLen*i+4]
		if spared&(1<<i) != 0 && p[4+sectionLen*(int(*number&^laterMark)-1)]&shadowMark != 0 {
			*number |= sparedMark
		}
	}
	return p
}

func appendZone(p Program, zone string, shifts []calendar.Shift) Program {
	p = append(p, byte(len(zone)))
	p = append(p, zone...)
	p = append(p, byte(len(shifts)))
	for _, s := range shifts {
		seconds := s.Offset/1_000_000 + 1<<23
		p = append(p, byte(s.From>>48))
		p = appendUint48(p, s.From)
		p = append(p, byte(seconds>>16), byte(seconds>>8), byte(seconds))
	}
	return p
}

// Limits is the inverse of Compile.
func (p Program) Limits() ([]Limit, error) {
	if len(p) < 4 || p[2] != programVersion {
		return nil, ErrProgram
	}
	entries := 4 + sectionLen*int(p[3])
	tail := entries + limitLen*int(p[0])
	if len(p) < tail {
		return nil, ErrProgram
	}
	zones, ok := p[tail:].zones()
	if !ok {
		return nil, ErrProgram
	}
	limits := make([]Limit, p[0])
	for i := range limits {
		entry := p[entries+limitLen*i:]
		number := int(entry[4] &^ laterMark)
		if number < 1 || number > int(p[3]) {
			return nil, ErrProgram
		}
		limits[i] = Limit{Requests: int64(binary.BigEndian.Uint32(entry)),
			Window: time.Duration(uint48(entry[5:])) * time.Microsecond}
		limits[i].Slots = int(entry[11])<<16 | int(entry[12])<<8 | int(entry[13])
		limits[i] = limits[i].ofKind(p[4+sectionLen*(number-1):])
		if limits[i].mark() != entry[4]&laterMark {
			return nil, ErrProgram
		}
		if limits[i].Calendar == NoCalendar {
			continue
		}
		if len(zones) == 0 {
			return nil, ErrProgram
		}
		limits[i].Zone, zones = zones[0], zones[1:]
	}
	if len(zones) > 0 && zones[0] != "" && zones[0][0] == thresholdsMark &&
		!readThresholds(limits, zones[0]) {
		return nil, ErrProgram
	}
	if err := ValidateAll(withoutZones(limits)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	if sections, _ := sectionsOf(limits); p[1] != headsLen(sections) {
		return nil, ErrProgram
	}
	return limits, nil
}

// withoutZones returns the limits without their zones, which only the time zone database
// can validate. A Program has the shifts that it needs.
func withoutZones(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Zone = ""
	}
	return limits
}

// ofKind returns the limit with the algorithm and mode of the section that an entry of
// the signature describes.
func (l Limit) ofKind(entry []byte) Limit {
	l.Shadow = entry[0]&shadowMark != 0
	switch kind(entry[0] &^ shadowMark) {
	case counterKind:
		l.Algorithm = Counter
	case bucketKind:
		l.Algorithm = TokenBucket
	case fixedKind:
		l.Algorithm, l.Calendar = FixedWindow, Calendar(entry[4])
	case attemptsKind:
		l.CountDenied = true
	case logKind:
	default:
		l.Algorithm = Algorithm(len(algorithmNames)) // not valid
	}
	return l
}

// zones returns the names of the zones in p, the tail of a Program. ok is false for a
// malformed tail.
func (p Program) zones() (names []string, ok bool) {
	for len(p) > 0 {
		n := 1 + int(p[0])
		if len(p) < n+1 {
			return nil, false
		}
		end := n + 1 + 10*int(p[n])
		if len(p) < end {
			return nil, false
		}
		names = append(names, string(p[1:n]))
		p = p[end:]
	}
	return names, true
}

func appendUint48(p []byte, v int64) []byte {
	return append(p, byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func uint48(b []byte) int64 {
	return int64(b[0])<<40 | int64(binary.BigEndian.Uint32(b[1:]))<<8 | int64(b[5])
}

func uint56(b []byte) int64 {
	return int64(b[0])<<48 | uint48(b[1:])
}

// kind is the algorithm of a section.
type kind byte

const (
	logKind      kind = iota + 1
	attemptsKind      // a log that counts denied calls
	counterKind
	bucketKind
	fixedKind
)

// section describes a part of a subject's state. Enforced Log limits with the same number
// of calls in a slot share a section.
type section struct {
	kind     kind
	group    int64 // calls in a slot of a log
	span     int64 // length of the window in microseconds, the longest of a log; 0 with a calendar
	calendar Calendar
	zone     string
	shadow   bool
}

func (k kind) isLog() bool { return k == logKind || k == attemptsKind }

// sectionsOf returns the sections for a list of limits, and each limit's index in them.
func sectionsOf(limits []Limit) (sections []section, of []int) {
	of = make([]int, len(limits))
	for i, l := range limits {
		want := section{span: l.Window.Microseconds(), calendar: l.Calendar, zone: l.Zone,
			shadow: l.Shadow}
		switch l.Algorithm {
		case Counter:
			want.kind = counterKind
		case TokenBucket:
			want.kind = bucketKind
		case FixedWindow:
			want.kind = fixedKind
		default:
			want.kind, want.group = logKind, l.group()
			if l.CountDenied {
				want.kind = attemptsKind
			}
		}
		of[i] = shareSection(sections, want)
		if of[i] < 0 {
			of[i] = len(sections)
			sections = append(sections, want)
		}
	}
	return sections, of
}

// same reports whether section s can keep the state of section o. A zone does not matter:
// it only moves the boundaries of the windows.
func (s section) same(o section) bool {
	return s.kind == o.kind && s.shadow == o.shadow && s.group == o.group && s.span == o.span &&
		s.calendar == o.calendar
}

// shareSection returns the index of a log that the wanted section can share, or -1. It
// widens that log to the wanted window.
func shareSection(sections []section, want section) int {
	for i, s := range sections {
		if want.kind.isLog() && !want.shadow && !s.shadow && s.kind == want.kind && s.group == want.group {
			sections[i].span = max(s.span, want.span)
			return i
		}
	}
	return -1
}

// width returns the bytes of a slot; 0 if the section is not a log. A slot has the low
// 8*width-1 bits of a time in microseconds. Their range must be longer than three
// windows, the greatest age of a slot.
func (s section) width() byte {
	switch {
	case !s.kind.isLog():
		return 0
	case s.span < 1<<29:
		return 4
	case s.span < 1<<37:
		return 5
	default:
		return 6
	}
}

// headsLen returns the bytes of the sections in a state, without slots.
func headsLen(sections []section) (n byte) {
	for _, s := range sections {
		if s.kind.isLog() {
			n += logLen
		} else {
			n += countLen
		}
	}
	return n
}
