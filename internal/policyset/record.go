package policyset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// The layout of a key's record in Valkey. find.lua reads the fixed part:
//
//	 1 byte    format, 2
//	 1 byte    0 revoked, 1 an active API key, 2 a token's or address's record,
//	           3 an active API key that opens only some routes
//	32 bytes   hash of the secret
//	32 bytes   hash of the previous secret
//	 7 bytes   until when the previous secret is valid
//	 7 bytes   when the key expires; 0 never
//	 7 bytes   until when it is banned
//	 4 bytes   version
//	 2 bytes   number of the plan
//	 7 bytes   when the override ends; 0 never
//	 2 bytes   length of the name
//	 2 bytes   length of the override; 0 if there is none
//	 2 bytes   length of the description
//	           name
//	           override: an entry
//	           description, JSON; of a key in a group it begins with {"group":"NAME"
//
// An entry encodes limits: 1 byte mode (1 enforce, 2 shadow, 3 off), 2 bytes length, and
// a limiter.Program, empty if the mode is off. Integers are big-endian, times
// microseconds since 1970.
const (
	recordFormat = 2
	hashAt       = 2
	previousAt   = hashAt + sha256.Size
	timesAt      = previousAt + sha256.Size
	TimesLen     = 3 * 7
	PublicAt     = timesAt + TimesLen
	PublicLen    = 4 + 2 + 7 + 2 + 2 + 2
	nameAt       = PublicAt + PublicLen
)

// description is the last part of a record. The scripts read only its group. For a key
// that opens only some routes, they compare it with the environment's copy.
type description struct {
	Group   string          `json:"group,omitempty"` // first: find.lua reads it
	Kind    policy.Kind     `json:"kind"`
	Env     string          `json:"env,omitempty"`
	Foreign bool            `json:"foreign,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Allow   []route.Pattern `json:"allow,omitempty"`
	Reason  string          `json:"reason,omitempty"` // of the override
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
}

// Secrets has the hashes of a key's valid secrets.
type Secrets struct{ Current, Previous [sha256.Size]byte }

// EncodeRecord encodes the record of a key.
func EncodeRecord(k policy.Key, s Secrets) ([]byte, error) {
	var entry []byte
	var until time.Time
	text := description{Group: k.Group, Kind: k.Kind, Env: k.Env, Foreign: k.Foreign, Tags: k.Tags,
		Allow: k.Allow, Created: k.Created, Updated: k.Updated}
	if k.Override != nil {
		var err error
		if entry, err = EncodeEntry("", k.Override.Limits); err != nil {
			return nil, err
		}
		until, text.Reason = k.Override.Until, k.Override.Reason
	}
	about, err := json.Marshal(text)
	if err != nil {
		return nil, fmt.Errorf("policyset: encode key: %w", err)
	}
	if max(len(about), len(entry), len(k.Name)) > math.MaxUint16 || k.Version < 1 ||
		k.Version > math.MaxUint32 {
		return nil, fmt.Errorf("policyset: encode key: description of %d bytes or version %d out of range",
			len(about), k.Version)
	}
	r := append(make([]byte, 0, nameAt+len(k.Name)+len(entry)+len(about)), recordFormat, statusByte(k))
	r = append(append(r, s.Current[:]...), s.Previous[:]...)
	for _, t := range []time.Time{k.Grace, k.Expires, k.Banned} {
		r = AppendTime(r, t)
	}
	r = binary.BigEndian.AppendUint32(r, uint32(k.Version))
	r = binary.BigEndian.AppendUint16(r, uint16(k.PlanNumber))
	r = AppendTime(r, until)
	for _, part := range [][]byte{[]byte(k.Name), entry, about} {
		r = binary.BigEndian.AppendUint16(r, uint16(len(part)))
	}
	return append(append(append(r, k.Name...), entry...), about...), nil
}

// EncodeEntry encodes limits and their mode as an entry. Without limits the mode is Off.
func EncodeEntry(mode policy.Mode, limits []limiter.Limit) ([]byte, error) {
	if len(limits) == 0 {
		return []byte{modeByte(policy.Off), 0, 0}, nil
	}
	program, err := limiter.Compile(limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("policyset: encode limits: %w", err)
	}
	entry := binary.BigEndian.AppendUint16([]byte{modeByte(mode)}, uint16(len(program)))
	return append(entry, program...), nil
}

// DecodeRecord decodes a record, without the name of the key's plan. It fails with
// policy.ErrUnreadable.
func DecodeRecord(id string, r []byte) (policy.Key, Secrets, error) {
	var s Secrets
	if len(r) < nameAt || r[0] != recordFormat {
		return policy.Key{}, s, policy.ErrUnreadable
	}
	copy(s.Current[:], r[hashAt:])
	copy(s.Previous[:], r[previousAt:])
	k := policy.Key{
		ID: id, Status: policy.Active, Grace: TimeAt(r[timesAt:]), Expires: TimeAt(r[timesAt+7:]),
		Banned:     TimeAt(r[timesAt+14:]),
		Version:    int64(binary.BigEndian.Uint32(r[PublicAt:])),
		PlanNumber: int(binary.BigEndian.Uint16(r[PublicAt+4:])),
	}
	if r[1] == 0 {
		k.Status = policy.Revoked
	}
	lengths := r[PublicAt+13:]
	name, entry := int(binary.BigEndian.Uint16(lengths)), int(binary.BigEndian.Uint16(lengths[2:]))
	rest := r[nameAt:]
	if len(rest) != name+entry+int(binary.BigEndian.Uint16(lengths[4:])) {
		return policy.Key{}, s, policy.ErrUnreadable
	}
	k.Name = string(rest[:name])
	var text description
	if err := json.Unmarshal(rest[name+entry:], &text); err != nil {
		return policy.Key{}, s, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	k.Kind, k.Env, k.Foreign, k.Tags = text.Kind, text.Env, text.Foreign, text.Tags
	k.Group, k.Allow, k.Created, k.Updated = text.Group, text.Allow, text.Created, text.Updated
	if entry > 0 {
		b, rest, err := CutEntry(rest[name : name+entry])
		if err != nil || len(rest) != 0 {
			return policy.Key{}, s, errors.Join(policy.ErrUnreadable, err)
		}
		_, limits, err := DecodeEntry(b)
		if err != nil {
			return policy.Key{}, s, errors.Join(policy.ErrUnreadable, err)
		}
		k.Override = &policy.Override{Limits: limits, Until: TimeAt(r[PublicAt+6:]), Reason: text.Reason}
	}
	return k, s, nil
}

// GroupText returns how the description of a key in the group begins.
func GroupText(name string) string { return `{"group":"` + name + `"` }

// DecodeAllow decodes the routes that a key opens from the description of its record.
func DecodeAllow(about []byte) ([]route.Pattern, error) {
	var text description
	if err := json.Unmarshal(about, &text); err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	return text.Allow, nil
}

// CutEntry splits b after the entry that it begins with. It fails with
// policy.ErrUnreadable.
func CutEntry(b []byte) (entry, rest []byte, err error) {
	if len(b) < 3 || b[0] < 1 || int(b[0]) > len(Modes) {
		return nil, nil, policy.ErrUnreadable
	}
	end := 3 + int(binary.BigEndian.Uint16(b[1:]))
	if len(b) < end {
		return nil, nil, policy.ErrUnreadable
	}
	return b[:end], b[end:], nil
}

// DecodeEntry decodes an entry that CutEntry returned. It fails with the limiter's error.
func DecodeEntry(entry []byte) (mode policy.Mode, limits []limiter.Limit, err error) {
	if mode = Modes[entry[0]-1]; len(entry) > 3 {
		limits, err = limiter.Program(entry[3:]).Limits()
	}
	return mode, limits, err
}

// Modes has the modes in the order of their bytes in an entry, from 1.
var Modes = [...]policy.Mode{policy.Enforce, policy.Shadow, policy.Off}

// modeByte returns the byte of a mode in an entry; the empty mode is Enforce.
func modeByte(m policy.Mode) byte { return byte(max(slices.Index(Modes[:], m), 0) + 1) }

func statusByte(k policy.Key) byte {
	switch {
	case k.Status != policy.Active:
		return 0
	case k.Kind == policy.APIKey && len(k.Allow) > 0:
		return 3
	case k.Kind == policy.APIKey:
		return 1
	}
	return 2
}

// AppendTime appends an instant as 7 bytes of microseconds since 1970; 0 for the zero
// time.
func AppendTime(b []byte, t time.Time) []byte {
	var us uint64
	if !t.IsZero() {
		us = uint64(t.UnixMicro())
	}
	return append(b, byte(us>>48), byte(us>>40), byte(us>>32), byte(us>>24), byte(us>>16),
		byte(us>>8), byte(us))
}

// TimeAt decodes an instant that AppendTime wrote.
func TimeAt(b []byte) time.Time {
	us := int64(b[0])<<48 | int64(b[1])<<40 | int64(binary.BigEndian.Uint32(b[2:]))<<8 | int64(b[6])
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// DecodeReply decodes the key in the reply to a GET of its record, as DecodeRecord does.
// It returns the zero Key if there is no record.
func DecodeReply(id string, result valkey.ValkeyResult) (policy.Key, error) {
	record, err := result.AsBytes()
	if valkey.IsValkeyNil(err) {
		return policy.Key{}, nil
	}
	if err != nil {
		return policy.Key{}, err
	}
	k, _, err := DecodeRecord(id, record)
	return k, err
}
