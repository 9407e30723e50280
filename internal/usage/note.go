package usage

// note is the calls of one second with one outcome. Stored it takes noteLen bytes, most
// significant bit first: 12 bits second of the hour, 1 bit denied, 6 bits calls, 5 bits
// cost above one of all of them together.
type note struct {
	second int // of the hour
	denied bool
	calls  int64
	extra  int64 // cost above one a call
}

const (
	noteLen      = 3
	maxNoteCalls = 1<<6 - 1
	maxNoteExtra = 1<<5 - 1
)

// appendNotes writes as many notes as the calls need. They hold at most maxNoteExtra of
// the extra cost each.
func appendNotes(b []byte, n note) []byte {
	for n.calls > 0 {
		calls, extra := min(n.calls, maxNoteCalls), min(n.extra, maxNoteExtra)
		word := n.second<<12 | int(calls)<<5 | int(extra)
		if n.denied {
			word |= 1 << 11
		}
		b = append(b, byte(word>>16), byte(word>>8), byte(word))
		n.calls -= calls
		n.extra -= extra
	}
	return b
}

// parseNotes reads what appendNotes wrote; bytes that are left over are ignored.
func parseNotes(b []byte) []note {
	notes := make([]note, 0, len(b)/noteLen)
	for ; len(b) >= noteLen; b = b[noteLen:] {
		word := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		notes = append(notes, note{second: word >> 12, denied: word>>11&1 == 1,
			calls: int64(word >> 5 & maxNoteCalls), extra: int64(word & maxNoteExtra)})
	}
	return notes
}
