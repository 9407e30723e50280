package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"tidegate/internal/limiter"
)

// A record is a key as it lies in Valkey. check.lua reads its fixed part:
//
//	1 byte    format, 1
//	1 byte    1 when active, 0 when revoked
//	32 bytes  hash of the secret
//	4 bytes   version
//	2 bytes   length of the program
//	2 bytes   length of the description
//	          program, as limiter.Program lays it out
//	          description, JSON
//
// Integers are big-endian.
const (
	recordFormat = 1
	hashAt       = 2
	publicAt     = hashAt + sha256.Size // what a check returns starts here
	programAt    = publicAt + 8
)

// description is the part of a record that only people and backends read.
type description struct {
	Name    string    `json:"name"`
	Env     string    `json:"env"`
	Plan    string    `json:"plan"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

func encodeRecord(k Key, hash [sha256.Size]byte) ([]byte, error) {
	program, err := limiter.Compile(k.Limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("policy: encode key: %w", err)
	}
	text, err := json.Marshal(description{k.Name, k.Env, k.Plan, k.Created, k.Updated})
	if err != nil {
		return nil, fmt.Errorf("policy: encode key: %w", err)
	}
	if len(text) > math.MaxUint16 || k.Version < 1 || k.Version > math.MaxUint32 {
		return nil, fmt.Errorf("policy: encode key: description of %d bytes or version %d out of range", len(text), k.Version)
	}
	record := make([]byte, 0, programAt+len(program)+len(text))
	record = append(record, recordFormat, statusByte(k.Status))
	record = append(record, hash[:]...)
	record = binary.BigEndian.AppendUint32(record, uint32(k.Version))
	record = binary.BigEndian.AppendUint16(record, uint16(len(program)))
	record = binary.BigEndian.AppendUint16(record, uint16(len(text)))
	return append(append(record, program...), text...), nil
}

func decodeRecord(id string, record []byte) (Key, [sha256.Size]byte, error) {
	var hash [sha256.Size]byte
	if len(record) < programAt || record[0] != recordFormat {
		return Key{}, hash, ErrUnreadable
	}
	copy(hash[:], record[hashAt:])
	k, rest, err := decodePublic(id, record[publicAt:])
	if err != nil || len(rest) != 0 {
		return Key{}, hash, errors.Join(ErrUnreadable, err)
	}
	k.Status = Revoked
	if record[1] == statusByte(Active) {
		k.Status = Active
	}
	return k, hash, nil
}

// decodePublic reads the part of a record that starts at publicAt, and returns what follows it.
func decodePublic(id string, b []byte) (k Key, rest []byte, err error) {
	if len(b) < programAt-publicAt {
		return Key{}, nil, ErrUnreadable
	}
	programEnd := 8 + int(binary.BigEndian.Uint16(b[4:]))
	end := programEnd + int(binary.BigEndian.Uint16(b[6:]))
	if len(b) < end {
		return Key{}, nil, ErrUnreadable
	}
	limits, err := limiter.Program(b[8:programEnd]).Limits()
	if err != nil {
		return Key{}, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var d description
	if err := json.Unmarshal(b[programEnd:end], &d); err != nil {
		return Key{}, nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return Key{
		ID: id, Name: d.Name, Env: d.Env, Plan: d.Plan, Status: Active, Limits: limits,
		Version: int64(binary.BigEndian.Uint32(b)), Created: d.Created, Updated: d.Updated,
	}, b[end:], nil
}

func statusByte(s Status) byte {
	if s == Active {
		return 1
	}
	return 0
}
