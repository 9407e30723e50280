package audit

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

// Before and After of an entry are stored packed from so many bytes on, together: most
// keys' are below, a policy's far above.
const (
	packFrom = 2 << 10
	maxPack  = 4 << 20 // larger ones are stored as they are, and none is unpacked
	maxRatio = 1100    // of deflate, and a little
)

// pack holds Before and After.
type pack struct {
	Before   int    `json:"b"` // bytes
	After    int    `json:"c"` // likewise
	Deflated []byte `json:"d"` // woven
}

var errNoJSON = errors.New("neither nothing nor JSON")

// weave divides two texts into parts, one of each in turn. Deflate looks back 32 kB: so
// it finds in the first what the second repeats, and of two long states that are nearly
// the same the second takes next to nothing.
func weave(first, second []byte) iter.Seq[[]byte] {
	const size = 8 << 10
	return func(yield func([]byte) bool) {
		for len(first)+len(second) > 0 {
			a, b := min(size, len(first)), min(size, len(second))
			if !yield(first[:a]) || !yield(second[:b]) {
				return
			}
			first, second = first[a:], second[b:]
		}
	}
}

// packed returns a pack, or nil if they are to be stored as they are.
func packed(before, after json.RawMessage) (*pack, error) {
	if total := len(before) + len(after); total < packFrom || total > maxPack {
		return nil, nil //nolint:nilnil // nothing is packed, and nothing is wrong
	}
	if !isJSON(before) || !isJSON(after) {
		return nil, errNoJSON
	}
	var text bytes.Buffer
	w, err := flate.NewWriter(&text, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	for part := range weave(before, after) {
		if _, err := w.Write(part); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &pack{len(before), len(after), text.Bytes()}, nil
}

// open returns what was packed; not ok if that was not done here.
func (p *pack) open() (before, after json.RawMessage, ok bool) {
	if p.Before < 0 || p.After < 0 || p.Before > maxPack || p.After > maxPack-p.Before ||
		p.Before+p.After > maxRatio*len(p.Deflated) {
		return nil, nil, false
	}
	before, after = state(p.Before), state(p.After)
	r := flate.NewReader(bytes.NewReader(p.Deflated))
	for part := range weave(before, after) {
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, nil, false
		}
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, nil, false
	}
	return before, after, isJSON(before) && isJSON(after)
}

// state is room for so many bytes, and nil for none.
func state(size int) json.RawMessage {
	if size == 0 {
		return nil
	}
	return make(json.RawMessage, size)
}

func isJSON(text json.RawMessage) bool { return len(text) == 0 || json.Valid(text) }
