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
//	1 byte   programVersion
//	1 byte   number of sections
//	per section, 25 bytes:
//	   1 kind (sectionID.kindByte)
//	   4 calls per slot of a log; calendar of a fixed window; limit of a token bucket
//	   6 bytes per slot of a log; otherwise the window (microseconds), or the hash of a
//	     calendar's time zone
//	   6 longest window (microseconds)
//	   4 number of slots that a log keeps
//	   4 largest limit
//	per limit, in the order given, 14 bytes:
//	   4 requests
//	   1 number of its section (from 1), plus 64 if a refund must spare the limit
//	   6 window (microseconds)
//	   3 Slots
//	per section with a calendar:
//	   1 length of the zone's name, the name, 1 number of shifts,
//	     per shift 7 bytes start (microseconds since 1970),
//	     3 bytes offset east of UTC (seconds + 2^23)
//	if a limit has thresholds, per limit: 1 number of thresholds, 1 byte for each
//
// Integers are big-endian. The sections of the limits come first. After them come those
// that only count: the enforced twin of a limit in shadow mode, which counts what the
// limit would count if it were enforced.
type Program []byte

const (
	programVersion = 3
	programHead    = 3  // bytes before the sections
	sectionLen     = 25 // bytes of a section
	limitLen       = 14 // bytes of a limit
	sparedMark     = 64 // added to the number of a section: a refund spares the limit
)

// NoLimits is a Program without limits, for steps that only count.
var NoLimits = Program{0, programVersion, 0}

// ErrProgram means that bytes are not a Program.
var ErrProgram = errors.New("limiter: not a compiled program")

// Compile validates the limits and encodes them as a Program. The Program knows the time
// zones of its calendars for ten years after now.
func Compile(limits []Limit, now time.Time) (Program, error) {
	if err := ValidateAll(limits); err != nil {
		return nil, err
	}
	sections, of := sectionsOf(limits, nil)
	p := make(Program, 0, programHead+sectionLen*len(sections)+limitLen*len(limits))
	p = append(p, byte(len(limits)), programVersion, byte(len(sections)))
	for _, s := range sections {
		p = append(p, s.kindByte())
		p = binary.BigEndian.AppendUint32(p, uint32(s.group))
		if s.kind.isLog() {
			p = appendUint48(p, s.width())
		} else {
			p = appendUint48(p, s.window)
		}
		p = appendUint48(p, s.span)
		p = binary.BigEndian.AppendUint32(p, uint32(s.keep))
		p = binary.BigEndian.AppendUint32(p, uint32(s.requests))
	}
	for i, l := range limits {
		p = binary.BigEndian.AppendUint32(p, uint32(l.Requests))
		p = append(p, byte(of[i]+1))
		p = appendUint48(p, l.Window.Microseconds())
		p = append(p, byte(l.Slots>>16), byte(l.Slots>>8), byte(l.Slots))
	}
	for _, s := range sections {
		if s.kind == fixedKind && s.group != 0 {
			p = appendZone(p, s.zone, Calendar(s.group).Shifts(s.zone, now))
		}
	}
	return appendThresholds(p, limits), nil
}

// Sparing returns the program for a refund that does not change some limits in shadow
// mode. Bit i of spared is for limit i; bits for enforced limits are ignored.
func (p Program) Sparing(spared byte) Program {
	if spared == 0 || len(p) < programHead {
		return p
	}
	p = slices.Clone(p)
	numbers := p[programHead+sectionLen*int(p[2]):]
	for i := range int(p[0]) {
		number := &numbers[limitLen*i+4]
		if spared&(1<<i) != 0 && p.section(int(*number) - 1)[0]&shadowBit != 0 {
			*number |= sparedMark
		}
	}
	return p
}

// section returns the bytes of section i.
func (p Program) section(i int) []byte { return p[programHead+sectionLen*i:][:sectionLen] }

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
	if len(p) < programHead || p[1] != programVersion {
		return nil, ErrProgram
	}
	entries := programHead + sectionLen*int(p[2])
	tail := entries + limitLen*int(p[0])
	if len(p) < tail {
		return nil, ErrProgram
	}
	limits, rest := make([]Limit, p[0]), p[tail:]
	zones := make([]string, p[2]) // by section
	for i := range zones {
		if s := p.section(i); kind(s[0]&kindBits) == fixedKind && s[4] != 0 {
			var ok bool
			if zones[i], rest, ok = rest.zone(); !ok {
				return nil, ErrProgram
			}
		}
	}
	for i := range limits {
		entry := p[entries+limitLen*i:]
		number := int(entry[4])
		if number < 1 || number > int(p[2]) {
			return nil, ErrProgram
		}
		limits[i] = Limit{Requests: int64(binary.BigEndian.Uint32(entry)), Zone: zones[number-1],
			Window: time.Duration(uint48(entry[5:])) * time.Microsecond,
			Slots:  int(entry[11])<<16 | int(entry[12])<<8 | int(entry[13])}.ofKind(p.section(number - 1))
	}
	if len(rest) > 0 && !readThresholds(limits, rest) {
		return nil, ErrProgram
	}
	if err := ValidateAll(withoutZones(limits)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
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

// ofKind returns the limit with the algorithm and mode of a section.
func (l Limit) ofKind(section []byte) Limit {
	l.Shadow, l.Calls = section[0]&shadowBit != 0, section[0]&callsBit != 0
	switch kind(section[0] & kindBits) {
	case counterKind:
		l.Algorithm = Counter
	case bucketKind:
		l.Algorithm = TokenBucket
	case fixedKind:
		l.Algorithm, l.Calendar = FixedWindow, Calendar(section[4])
	case attemptsKind:
		l.CountDenied = true
	case logKind:
	default:
		l.Algorithm = Algorithm(len(algorithmNames)) // not valid
	}
	return l
}

// zone returns the name of the time zone with which p begins, and what follows its shifts.
// ok is false if p is malformed.
func (p Program) zone() (name string, rest Program, ok bool) {
	if len(p) == 0 || len(p) < 2+int(p[0]) {
		return "", nil, false
	}
	n := 1 + int(p[0])
	end := n + 1 + 10*int(p[n])
	if len(p) < end {
		return "", nil, false
	}
	return string(p[1:n]), p[end:], true
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
