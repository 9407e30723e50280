package policyset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"

	"github.com/valkey-io/valkey-go"
)

// A record is a key as it lies in Valkey. find.lua reads its fixed part:
//
//	 1 byte    format, 2
//	 1 byte    0 revoked, 1 an active API key, 2 a token's or address's record,
//	           3 an active API key that opens only some routes
//	32 bytes   hash of the secret
//	32 bytes   hash of the secret before
//	 7 bytes   until when that one is good
//	 7 bytes   when the key expires; 0 never
//	 7 bytes   until when it is banned
//	 4 bytes   version
//	 2 bytes   number of the plan
//	 7 bytes   until when the override holds; 0 without end
//	 2 bytes   length of the name
//	 2 bytes   length of the override; 0 when there is none
//	 2 bytes   length of the description
//	           name
//	           override: entry of its limits
//	           description, JSON; of a key in a group it begins with {"group":"NAME"
//
// An entry is 1 byte mode (1 enforce, 2 shadow, 3 off), 2 bytes length, and a program as
// limiter.Program lays it out, empty when the mode is off. Integers are big-endian, times
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

// description is the part of a record that the scripts do not read. With status 3 they
// compare it with the environment's copy.
type description struct {
	Group   string      `json:"group,omitempty"` // first: find.lua reads it
	Kind    policy.Kind `json:"kind"`
	Env     string      `json:"env,omitempty"`
	Foreign bool        `json:"foreign,omitempty"`
	Tags    []string    `json:"tags,omitempty"`

	Allow []route.Pattern `json:"allow,omitempty"`

	Reason  string    `json:"reason,omitempty"` // of the override
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
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
		if entry, err = EncodeEntry(k.Override.Mode, k.Override.Limits); err != nil {
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

// EncodeEntry encodes limits and their mode.
func EncodeEntry(mode policy.Mode, limits []limiter.Limit) ([]byte, error) {
	if mode == policy.Off {
		return []byte{modeByte(policy.Off), 0, 0}, nil
	}
	program, err := limiter.Compile(limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("policyset: encode limits: %w", err)
	}
	entry := binary.BigEndian.AppendUint16([]byte{modeByte(mode)}, uint16(len(program)))
	return append(entry, program...), nil
}

// DecodeRecord decodes a record. It fails with policy.ErrUnreadable.
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
		mode, limits, rest, err := DecodeEntry(rest[name : name+entry])
		if err != nil || len(rest) != 0 {
			return policy.Key{}, s, errors.Join(policy.ErrUnreadable, err)
		}
		k.Override = &policy.Override{Limits: limits, Mode: mode, Until: TimeAt(r[PublicAt+6:]),
			Reason: text.Reason}
	}
	return k, s, nil
}

// GroupText is how the description of a key in a group begins.
func GroupText(name string) string { return `{"group":"` + name + `"` }

// DecodeAllow decodes the routes that a key opens from its description.
func DecodeAllow(about []byte) ([]route.Pattern, error) {
	var text description
	if err := json.Unmarshal(about, &text); err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	return text.Allow, nil
}

// DecodeEntry decodes limits and their mode, and returns the bytes after them.
func DecodeEntry(b []byte) (mode policy.Mode, limits []limiter.Limit, rest []byte, err error) {
	if len(b) < 3 || b[0] < 1 || int(b[0]) > len(Modes) {
		return "", nil, nil, policy.ErrUnreadable
	}
	mode, b = Modes[b[0]-1], b[1:]
	end := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < end {
		return "", nil, nil, policy.ErrUnreadable
	}
	if end == 2 {
		return mode, nil, b[end:], nil
	}
	limits, err = limiter.Program(b[2:end]).Limits()
	return mode, limits, b[end:], err
}

// Modes has the modes in the order of their encoding, from 1.
var Modes = [...]policy.Mode{policy.Enforce, policy.Shadow, policy.Off}

func modeByte(m policy.Mode) byte {
	for i, known := range Modes {
		if m == known {
			return byte(i + 1)
		}
	}
	return 1
}

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

// AppendTime appends an instant as 7 bytes of microseconds; zero for the zero time.
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

// Recorded decodes the key in a reply, without the name of its plan. It returns the zero
// Key if there is no record.
func Recorded(id string, result valkey.ValkeyResult) (policy.Key, error) {
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
