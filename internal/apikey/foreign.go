package apikey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a foreign value, the text of a key that another system made.
const (
	MinForeignLen = 20
	MaxForeignLen = 256
	// MinForeignDistinct is the minimum number of different characters.
	MinForeignDistinct = 10
)

// The reasons why a text is no foreign value. Their messages do not repeat it.
var (
	errForeignLen = fmt.Errorf("must have %d to %d characters", MinForeignLen, MaxForeignLen)
	errForeignSet = errors.New("must have printable ASCII characters alone, without spaces and commas")
	errDistinct   = fmt.Errorf("must have %d different characters: it can be guessed", MinForeignDistinct)
	errOwnForm    = errors.New("begins as keys or tokens of Tidegate do: leave it out, and a key is made")
)

// Foreign reads a foreign value. Its id is an HMAC of the whole value, so a check finds
// the record by one look-up, as for our own keys. The id is public and reveals nothing
// about the value without the pepper. The value is hashed as other keys are. The HMAC's
// text differs from every purpose of Derive, since purposes contain a space.
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
