package policyset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// The layout of a key's record. Integers are big-endian, times microseconds since 1970. The
// version of a key is not in it: it is the number of the record's last change.
//
//	 1 byte    format, 4
//	 1 byte    0 revoked, 1 active
//	32 bytes   hash of the secret
//	32 bytes   hash of the previous secret
//	 7 bytes   until when the previous secret is valid
//	 7 bytes   when the key expires; 0 never
//	 7 bytes   until when it is banned
//	 4 bytes   number of the plan
//	           description, JSON, to the end
const (
	recordFormat = 4
	hashAt       = 2
	previousAt   = hashAt + sha256.Size
	timesAt      = previousAt + sha256.Size
	planAt       = timesAt + 3*7
	textAt       = planAt + 4
)

// description is the last part of a record.
type description struct {
	Name     string           `json:"name"`
	Group    string           `json:"group,omitempty"`
	Kind     policy.Kind      `json:"kind"`
	Env      string           `json:"env,omitempty"`
	Foreign  bool             `json:"foreign,omitempty"`
	Tags     []string         `json:"tags,omitempty"`
	Opens    []route.Pattern  `json:"opens,omitempty"`
	Override *policy.Override `json:"override,omitempty"`
	Reset    time.Time        `json:"reset,omitzero"`
	Billing  limits.Billing   `json:"billing,omitzero"`
	Created  time.Time        `json:"created"`
	Updated  time.Time        `json:"updated"`
}

// Secrets has the hashes of a key's valid secrets.
type Secrets struct{ Current, Previous [sha256.Size]byte }

// EncodeRecord encodes the record of a key.
func EncodeRecord(k policy.Key, s Secrets) ([]byte, error) {
	text, err := json.Marshal(description{Name: k.Name, Group: k.Group, Kind: k.Kind, Env: k.Env,
		Foreign: k.Foreign, Tags: k.Tags, Opens: k.Opens, Override: k.Override, Reset: k.Reset,
		Billing: k.Billing,
		Created: k.Created, Updated: k.Updated})
	if err != nil {
		return nil, fmt.Errorf("policyset: encode key: %w", err)
	}
	if k.PlanNumber < 0 || k.PlanNumber > math.MaxUint32 {
		return nil, fmt.Errorf("policyset: encode key: plan %d out of range", k.PlanNumber)
	}
	status := byte(0)
	if k.Status == policy.Active {
		status = 1
	}
	r := append(make([]byte, 0, textAt+len(text)), recordFormat, status)
	r = append(append(r, s.Current[:]...), s.Previous[:]...)
	for _, t := range []time.Time{k.Grace, k.Expires, k.Banned} {
		r = appendTime(r, t)
	}
	r = binary.BigEndian.AppendUint32(r, uint32(k.PlanNumber))
	return append(r, text...), nil
}

// DecodeRecord decodes a record, without the name of the key's plan. version is the number
// of the record's last change. It fails with policy.ErrUnreadable; the returned key then has
// its ID, its Version and the Status Unreadable.
func DecodeRecord(id string, version uint64, r []byte) (policy.Key, Secrets, error) {
	var s Secrets
	unreadable := policy.Key{ID: id, Version: int64(version), Status: policy.Unreadable}
	if len(r) < textAt || r[0] != recordFormat {
		return unreadable, s, policy.ErrUnreadable
	}
	copy(s.Current[:], r[hashAt:])
	copy(s.Previous[:], r[previousAt:])
	var text description
	if err := json.Unmarshal(r[textAt:], &text); err != nil {
		return unreadable, Secrets{}, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	k := policy.Key{
		ID: id, Kind: text.Kind, Name: text.Name, Env: text.Env, Foreign: text.Foreign, Tags: text.Tags,
		Group: text.Group, Status: policy.Active, Override: text.Override, Opens: text.Opens,
		Reset: text.Reset, Billing: text.Billing, Created: text.Created, Updated: text.Updated,
		Grace: timeAt(r[timesAt:]), Expires: timeAt(r[timesAt+7:]), Banned: timeAt(r[timesAt+14:]),
		Version:    int64(version),
		PlanNumber: int(binary.BigEndian.Uint32(r[planAt:])),
	}
	if r[1] == 0 {
		k.Status = policy.Revoked
	}
	return k, s, nil
}

// appendTime appends an instant as 7 bytes of microseconds since 1970; 0 for the zero
// time.
func appendTime(b []byte, t time.Time) []byte {
	var us uint64
	if !t.IsZero() {
		us = uint64(t.UnixMicro())
	}
	return append(b, byte(us>>48), byte(us>>40), byte(us>>32), byte(us>>24), byte(us>>16),
		byte(us>>8), byte(us))
}

// timeAt decodes an instant that appendTime wrote.
func timeAt(b []byte) time.Time {
	us := int64(b[0])<<48 | int64(b[1])<<40 | int64(binary.BigEndian.Uint32(b[2:]))<<8 | int64(b[6])
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Stored splits the text of a record in Valkey into the number of its last change and its
// content. It returns zeros if there is none.
func Stored(text string) (version uint64, content []byte) {
	number, rest, _ := strings.Cut(text, " ")
	version, _ = strconv.ParseUint(number, 10, 64)
	return version, []byte(rest)
}
