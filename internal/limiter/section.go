package limiter

import "hash/fnv"

// kind is the algorithm of a section.
type kind byte

const (
	logKind      kind = iota + 1
	attemptsKind      // a log that counts denied calls
	counterKind
	bucketKind
	fixedKind
)

func (k kind) isLog() bool { return k == logKind || k == attemptsKind }

// The bits of the first byte of a section and of a part.
const (
	kindBits  = 7
	shadowBit = 8  // a limit in shadow mode
	callsBit  = 16 // counts calls, whatever they cost
	ordinal1  = 32 // the ordinal begins at this bit
)

// sectionID is what identifies a section, and its part in a state.
type sectionID struct {
	kind    kind
	shadow  bool
	calls   bool  // counts calls, whatever they cost
	ordinal uint8 // number among the limits in shadow mode that have all else in common
	group   int64 // calls in a slot of a log; calendar of a fixed window; limit of a token bucket
	window  int64 // length of the window (microseconds), or a hash of a calendar's zone; 0 for a log
}

func (id sectionID) kindByte() byte {
	b := byte(id.kind) | id.ordinal*ordinal1
	if id.shadow {
		b |= shadowBit
	}
	if id.calls {
		b |= callsBit
	}
	return b
}

// section is a part of a program. All enforced limits with one sectionID share a section.
type section struct {
	sectionID
	span     int64 // longest window (microseconds)
	requests int64 // largest limit
	keep     int64 // number of slots that a log keeps
	zone     string
}

// sectionsOf returns the sections of a list of limits and of counted ones, and each
// limit's index in them.
func sectionsOf(limits, counted []Limit) (sections []section, of []int) {
	of = make([]int, len(limits))
	add := func(l Limit) int {
		want := l.section()
		for i := range sections {
			s := &sections[i]
			switch {
			case s.sectionID != want.sectionID:
			case want.shadow:
				want.ordinal++
			default:
				s.span, s.requests = max(s.span, want.span), max(s.requests, want.requests)
				s.keep = max(s.keep, want.keep)
				return i
			}
		}
		sections = append(sections, want)
		return len(sections) - 1
	}
	twins := func(limits []Limit) { // of the limits in shadow mode
		for _, l := range limits {
			if l.Shadow {
				l.Shadow = false
				add(l)
			}
		}
	}
	for i, l := range limits {
		of[i] = add(l)
	}
	twins(limits)
	for _, l := range counted {
		if !l.Shadow {
			add(l)
		}
	}
	twins(counted)
	return sections, of
}

// section returns the section that a limit needs.
func (l Limit) section() section {
	s := section{sectionID: sectionID{shadow: l.Shadow, calls: l.Calls, window: l.Window.Microseconds()},
		span: l.Span().Microseconds(), requests: l.Requests}
	switch l.Algorithm {
	case Counter:
		s.kind = counterKind
	case TokenBucket:
		s.kind, s.group = bucketKind, l.Requests
	case FixedWindow:
		s.kind, s.group = fixedKind, int64(l.Calendar)
		if l.Calendar != NoCalendar {
			s.window, s.zone = zoneHash(l.Zone), l.Zone
		}
	default:
		s.kind, s.group, s.window = logKind, l.group(), 0
		s.keep = 2*s.slots() + 1 // calls beyond the limit are owed
		if l.CountDenied {
			s.kind, s.keep = attemptsKind, s.slots()+1
		}
	}
	return s
}

// zoneHash returns 48 bits that tell time zones apart; 0 for UTC.
func zoneHash(zone string) int64 {
	if zone == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(zone))
	return int64(h.Sum64() >> 16)
}

// slots returns the number of slots that the largest limit of a log needs.
func (s section) slots() int64 { return (s.requests + s.group - 1) / s.group }

// width returns the bytes of a slot of a log. A slot has the low 8*width-1 bits of a time
// in microseconds. Their range must be longer than three windows, the greatest age of a
// slot.
func (s section) width() int64 {
	switch {
	case s.span < 1<<29:
		return 4
	case s.span < 1<<37:
		return 5
	default:
		return 6
	}
}
