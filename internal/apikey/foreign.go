package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a foreign value: a key's text that another system made.
const (
	MinForeignLen = 20
	MaxForeignLen = 256
	// MinForeignDistinct is how many different characters it has at least.
	MinForeignDistinct = 10
)

// The ways in which a text is no foreign value. Their texts do not repeat it.
var (
	errForeignLen = fmt.Errorf("must have %d to %d characters", MinForeignLen, MaxForeignLen)
	errForeignSet = errors.New("must have printable ASCII characters alone, without spaces and commas")
	errDistinct   = fmt.Errorf("must have %d different characters: it can be guessed", MinForeignDistinct)
	errOwnForm    = errors.New("begins as keys or tokens of Tidegate do: leave it out, and a key is made")
)

// Foreign reads a foreign value. Its id is an HMAC of the whole value, so that a check
// finds its record by the same one look-up as that of a key of ours. The id is no secret,
// and reveals nothing about the value to those without the pepper. It is hashed as other
// keys are. Nothing else that the pepper makes is of such a text: purposes of Derive have
// a space.
func (k Key) Foreign(text string) (Secret, error) {
	if err := foreignProblem(text); err != nil {
		return Secret{}, err
	}
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte("key\x00" + text))
	sum := mac.Sum(nil)
	var id [IDLen]byte
	for i := range id {
		id[i] = alphabet[binary.BigEndian.Uint16(sum[2*i:])%62]
	}
	return Secret{text: text, id: string(id[:]), foreign: true}, nil
}

func foreignProblem(text string) error {
	if len(text) < MinForeignLen || len(text) > MaxForeignLen {
		return errForeignLen
	}
	var seen [128]bool
	distinct := 0
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c > '~' || c == ',' {
			return errForeignSet
		}
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	switch head := strings.ToLower(text[:len(prefix)+1]); {
	case strings.HasPrefix(head, prefix), head == "tga_", head == "tgr_":
		return errOwnForm
	case distinct < MinForeignDistinct:
		return errDistinct
	}
	return nil
}
