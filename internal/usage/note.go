package usage

import "encoding/binary"

// note is the calls of one second with one outcome. Stored it takes noteLen bytes, most significant bit first:
// 12 bits second of the hour, 1 bit denied, 13 bits calls, 14 bits cost above one of all of them together.
type note struct {
	second int // of the hour
	denied bool
	calls  int64
	extra  int64 // cost above one a call; what exceeds maxNoteExtra is not kept
}

const (
	noteLen      = 5
	maxNoteCalls = 1<<13 - 1
	maxNoteExtra = 1<<14 - 1
)

// appendNotes writes as many notes as the calls need.
func appendNotes(b []byte, n note) []byte {
	for n.calls > 0 {
		calls, extra := min(n.calls, maxNoteCalls), min(n.extra, maxNoteExtra)
		word := uint64(n.second)<<28 | uint64(calls)<<14 | uint64(extra)
		if n.denied {
			word |= 1 << 27
		}
		b = append(b, byte(word>>32))
		b = binary.BigEndian.AppendUint32(b, uint32(word))
		n.calls -= calls
		n.extra -= extra
	}
	return b
}

// parseNotes reads what appendNotes wrote; bytes that are left over are ignored.
func parseNotes(b []byte) []note {
	notes := make([]note, 0, len(b)/noteLen)
	for ; len(b) >= noteLen; b = b[noteLen:] {
		word := uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
		notes = append(notes, note{
			second: int(word >> 28), denied: word>>27&1 == 1, calls: int64(word >> 14 & maxNoteCalls), extra: int64(word & maxNoteExtra),
		})
	}
	return notes
}
