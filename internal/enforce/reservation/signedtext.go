package reservation

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

const (
	prefix    = "tgr_"
	format    = 1
	maxLength = 512 // of a text
)

// Seal is the key that reservations are signed with.
type Seal []byte

// NewSeal derives the key from the pepper.
func NewSeal(pepper apikey.Pepper) Seal { return pepper.Derive("reservations") }

func (s Seal) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write(data)
	return mac.Sum(nil)
}

// Write lays a reservation out: 1 byte format, 1 byte took, 2 bytes plan, 4 bytes cost, 7
// bytes expiry, 7 bytes time of the caller's step, 7 bytes for each limit on others but
// groups that took, 8 bytes at random, then three texts with 1 byte length, 4 bytes
// SettleMax, and 32 bytes HMAC-SHA-256 of all that; in base64. When limits on a group
// took, 7 bytes time, 2 bytes plan and a text stand after SettleMax; then spared, unless
// it is 0. Releases before SettleMax end with the texts, write none, and pass over what
// follows.
func (s Seal) Write(r *Reservation) string {
	b := make([]byte, 0, 256)
	b = append(b, format, r.took)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Plan))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Cost))
	b = policyset.AppendTime(policyset.AppendTime(b, r.Expires), r.own)
	for state := firstShared; state < Group; state++ {
		if r.Has(state) {
			b = policyset.AppendTime(b, r.At(state))
		}
	}
	b = append(b, r.nonce[:]...)
	for _, text := range []string{r.Subject, r.Rule, r.Network} {
		b = append(append(b, byte(len(text))), text...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.SettleMax))
	if r.Has(Group) {
		b = policyset.AppendTime(b, r.At(Group))
		b = binary.BigEndian.AppendUint16(b, uint16(r.GroupPlan))
		b = append(append(b, byte(len(r.Group))), r.Group...)
	}
	if r.spared != [states]byte{} {
		b = append(b, r.spared[:]...)
	}
	return prefix + base64.RawURLEncoding.EncodeToString(append(b, s.sum(b)...))
}

// Read is the inverse of Write; ok is false of a text that this key did not sign.
func (s Seal) Read(text string) (r *Reservation, ok bool) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) > maxLength {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) < sha256.Size {
		return nil, false
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, s.sum(b)) || !bytes.HasPrefix(b, []byte{format}) {
		return nil, false
	}
	return parse(b), true
}

// parse reads what Write laid out; the signature says that it did.
func parse(b []byte) *Reservation {
	r := &Reservation{took: b[1], Plan: int(binary.BigEndian.Uint16(b[2:])),
		Cost: int64(binary.BigEndian.Uint32(b[4:]))}
	r.Expires, r.own, b = policyset.TimeAt(b[8:]), policyset.TimeAt(b[15:]), b[22:]
	for state := firstShared; state < Group; state++ {
		if r.Has(state) {
			r.shared[state-firstShared], b = policyset.TimeAt(b), b[7:]
		}
	}
	b = b[copy(r.nonce[:], b):]
	for _, text := range []*string{&r.Subject, &r.Rule, &r.Network} {
		end := 1 + int(b[0])
		*text, b = string(b[1:end]), b[end:]
	}
	if r.SettleMax = policy.SettleMaxOf(r.Cost); len(b) >= 4 {
		r.SettleMax, b = int64(binary.BigEndian.Uint32(b)), b[4:]
	}
	if r.Has(Group) {
		r.shared[Group-firstShared], r.GroupPlan = policyset.TimeAt(b), int(binary.BigEndian.Uint16(b[7:]))
		end := 10 + int(b[9])
		r.Group, b = string(b[10:end]), b[end:]
	}
	copy(r.spared[:], b)
	return r
}
