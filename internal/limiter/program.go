package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidegate/internal/limiter/calendar"
)

// Program is a list of limits compiled for the script: it travels as an argument, or is
// stored with the state that it governs.
//
//	1 byte   number of limits
//	1 byte   length of a state's sections, between the signature and the slots
//	         signature: 1 byte version, 1 byte number of sections, then for each section
//	           1 byte kind (1 log, 2 log of attempts, 3 counter, 4 token bucket, 5 fixed
//	           window), 8 more of a limit in shadow mode, which shares no section
//	           4 bytes calls per slot of a log; calendar of a fixed window
//	           1 byte bytes per slot of a log
//	           6 bytes window, of a log the longest one (microseconds)
//	per limit, in the order given:
//	           4 bytes requests,
//	           1 byte number of its section (from 1), 128 more for calendar weeks and
//	           years and in shadow mode, 64 more when a refund leaves it alone,
//	           6 bytes window (microseconds), 3 bytes Slots
//	per section with a calendar:
//	           1 byte length of the zone's name, the name, 1 byte number of shifts,
//	           per shift 7 bytes from when on (microseconds since 1970),
//	           3 bytes offset east of UTC (seconds + 2^23)
//	thresholds of the limits, if there are any, as thresholds.go lays them out
//
// Integers are big-endian. The 128 more make releases that do not know the period or the
// mode refuse the program, before they change a state, and leave it to the general step.
type Program []byte

const (
	programVersion = 2
	sectionLen     = 12
	logLen         = 30 // of a log in a state, without its slots
	countLen       = 15 // of another section in a state
	limitLen       = 14
	laterMark      = 128 // in the number of a section: earlier releases refuse the program
	sparedMark     = 64  // likewise: a refund leaves the limit alone
	shadowMark     = 8   // in the kind of a section
)

// ErrProgram means that bytes are not a Program.
var ErrProgram = errors.New("limiter: not a compiled program")

// Compile validates the limits and lays them out as a Program. A Program knows the time
// zones of its calendars for ten years ahead of now.
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
	return appendNotices(p, limits), nil
}

// mark is what a limit adds to the number of its section.
func (l Limit) mark() byte {
	if l.Calendar > Month || l.Shadow {
		return laterMark
	}
	return 0
}

// Sparing returns the program for a refund that leaves some limits in shadow mode alone:
// bit i of spared is for limit i. Bits of enforced limits mean nothing.
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
	if len(zones) > 0 && zones[0] != "" && zones[0][0] == noticeMark && !readNotices(limits, zones[0]) {
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

// withoutZones leaves out what takes the time zone database to check. A Program carries
// all that it needs of it.
func withoutZones(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Zone = ""
	}
	return limits
}

// ofKind returns the limit as one of the section that an entry of the signature
// describes.
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

// zones reads the names of the zones in the tail of a Program.
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
