package limiter

// kind is what a section of the state holds.
type kind byte

const (
	logKind kind = iota + 1
	attemptsKind
	counterKind
	bucketKind
	fixedKind
)

// section is a part of a subject's state. Log limits with the same calls per slot share
// one.
type section struct {
	kind     kind
	group    int64
	span     int64 // microseconds; 0 with a calendar
	calendar Calendar
	zone     string
	shadow   bool
}

func (k kind) isLog() bool { return k == logKind || k == attemptsKind }

// sectionsOf lays the limits out: the sections, and the index of each limit's.
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
		of[i] = shared(sections, want)
		if of[i] < 0 {
			of[i] = len(sections)
			sections = append(sections, want)
		}
	}
	return sections, of
}

// same reports whether two sections hold the same; a zone only moves the boundaries of
// its windows.
func (s section) same(o section) bool {
	return s.kind == o.kind && s.shadow == o.shadow && s.group == o.group && s.span == o.span &&
		s.calendar == o.calendar
}

// shared returns the index of the log section that the wanted one can share, widened to
// its window, or -1.
func shared(sections []section, want section) int {
	for i, s := range sections {
		if want.kind.isLog() && !want.shadow && !s.shadow && s.kind == want.kind && s.group == want.group {
			sections[i].span = max(s.span, want.span)
			return i
		}
	}
	return -1
}

// width returns the bytes of a slot: its low 8*width-1 bits of microseconds must span
// more than three windows, and the oldest slot is never older.
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
