package audit

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// ErrOlderAway means that older entries are in the journal alone, which does not answer
// or is not configured.
var ErrOlderAway = errors.New("older entries are in the journal, which does not answer")

// Segment is a run of entries of one chain, as the journal keeps it in one object. The
// segments of a chain follow each other without a gap, from the first entry on.
type Segment struct {
	First   uint64               // number of its oldest entry
	Before  uint64               // First of the segment before; 0 for none
	Entries []valkey.XRangeEntry // as a stream has them, oldest first
}

// Trimmed is what a stream lacks at its beginning: all entries up to the end of a
// segment. The zero Trimmed is nothing.
type Trimmed struct {
	First uint64 // of that segment
	ID    string // of its newest entry, in the stream
	Hash  []byte // that entry's
}

// TrimmedKey names what says which entries a stream lacks.
func TrimmedKey(b keyspace.Bucket) string { return b.Name("at") }

// String is the form in which Valkey has it.
func (t Trimmed) String() string {
	if t.First == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s %x", t.First, t.ID, t.Hash)
}

// ParseTrimmed reads what String wrote. What nobody wrote is nothing: Verify then finds
// that the entries are missing.
func ParseTrimmed(text string) Trimmed {
	var t Trimmed
	var hash string
	_, err := fmt.Sscanf(text, "%d %s %s", &t.First, &t.ID, &hash)
	if err != nil || !streamID(t.ID) {
		return Trimmed{}
	}
	if t.Hash, err = hex.DecodeString(hash); err != nil {
		return Trimmed{}
	}
	return t
}
