// Package denylog encodes and reads the denial log: why calls of the last day were
// denied. Package usage writes the log.
//
// The log keeps denied calls, and refused calls of proven keys or with a reason, for a
// day: when, who, by which limit and rule or for which reason, on which pattern of a
// route, from which /24 or /48, Retry-After and the request's id. Denials that differ only
// in time, network, Retry-After and request are of one kind. Of each kind and minute the
// first 3 have an entry each; a 4th entry stands for the rest of the minute and says how
// many. Read lists entries, newest first, an hour at a time: of one caller from one
// bucket, of all callers from the 256 buckets.
//
// A second log of the same form and bounds has the calls that passed and that a limit in
// shadow mode would have denied. It has keys of its own, so
// a flood in one log takes no room in the other.
package denylog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"tidegate/internal/cause"
)

// Denial says why a call was denied, or would have been by a limit in shadow mode. Texts are
// cut at 200 bytes, Request at 48.
type Denial struct {
	Cause      cause.Cause
	Plan       string
	Group      string // of the key; empty for none
	Limit      string // that denied, by its name for clients; empty for another cause
	Rule       string // name of the route rule; empty if none matches
	Method     string
	Path       string       // pattern of the route, never the path that was called
	API, Stage string       // API Gateway's
	Network    netip.Prefix // a /24 or a /48 of the caller's address; may be invalid
	RetryAfter time.Duration
	Request    string // API Gateway's id of the request
	Reason     string // the claim, key or setting that is the cause; empty for most
}

// NeverPasses reports whether no retry passes, since the limit is below the call's cost.
func (d *Denial) NeverPasses() bool { return d.Limit != "" && d.RetryAfter == 0 }

// NetworkOf returns the part of an address that the log keeps: its /24 or /48. It is
// invalid for an invalid address.
func NetworkOf(a netip.Addr) netip.Prefix {
	bits := v6Bits
	if a.Is4() {
		bits = v4Bits
	}
	network, _ := a.Prefix(bits)
	return network
}

// Kind is what denials of one caller have in common. It is a field of the hash that is
// the log of a bucket and an hour. All lengths are one byte.
//
//	length, id of the caller; 0 for a caller that Valkey could not verify
//	1 byte cause
//	length, text: of plan, limit, rule, method, path, API and stage, in this order,
//	and of the key's group and the reason if there are any
//
// The field's value is
//
//	1 byte   minute of the newest occurrence
//	1 byte   occurrences of that minute
//	2 bytes  where the newest occurrence begins
//	         occurrences, oldest first
//
// Two other fields are counters: "" of the bytes that the log uses, and byte 255 with a
// caller's id of that caller's kinds. Integers are big-endian.
type Kind struct {
	Minute                                      int64 // since 1970; not part of the field
	Registered                                  bool  // not part of the field
	Subject                                     string
	Cause                                       cause.Cause
	Plan, Limit, Rule, Method, Path, API, Stage string
	Group                                       string // of the key
	Reason                                      string
}

const (
	maxText      = 200    // bytes of a text of a kind
	counterField = "\xff" // prefix of the fields that count a caller's kinds
)

func (k *Kind) texts() []*string {
	return []*string{&k.Plan, &k.Limit, &k.Rule, &k.Method, &k.Path, &k.API, &k.Stage}
}

// Field returns the field of the hash.
func (k *Kind) Field() string {
	var b strings.Builder
	b.WriteByte(byte(len(k.Subject)))
	b.WriteString(k.Subject)
	b.WriteByte(byte(k.Cause))
	texts := k.texts()
	if k.Group != "" || k.Reason != "" {
		texts = append(texts, &k.Group)
	}
	if k.Reason != "" {
		texts = append(texts, &k.Reason)
	}
	for _, text := range texts {
		cut := clip(*text)
		b.WriteByte(byte(len(cut)))
		b.WriteString(cut)
	}
	return b.String()
}

// clip cuts a text to maxText bytes, between two characters.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

var errLog = errors.New("denylog: malformed entry")

// ParseKind reads the field of a Kind.
func ParseKind(field string) (k Kind, err error) {
	texts := append([]*string{&k.Subject}, k.texts()...)
	required := len(texts)
	for i, text := range append(texts, &k.Group, &k.Reason) {
		if field == "" && i >= required {
			break
		}
		if i == 1 {
			if field == "" {
				return k, errLog
			}
			k.Cause, field = cause.Cause(field[0]), field[1:]
		}
		if field == "" || len(field) < 1+int(field[0]) {
			return k, errLog
		}
		*text, field = field[1:1+field[0]], field[1+field[0]:]
	}
	return k, nil
}

// MaxOccurrences is the most occurrences of a kind and minute, as in denials.lua.
const MaxOccurrences = 4

const (
	occurrenceHead = 3 + 3 + 5 + 1 // bytes of the fields of fixed length
	valueHead      = 4             // bytes before the occurrences of a value
	maxCalls       = 1<<24 - 1
	maxRetryAfter  = 1<<40 - 1 // milliseconds
	maxRequest     = 48        // bytes of a request's id
	uuidLen        = 36
	v4Bits, v6Bits = 24, 48
)

// Occurrence is one denial, and the number of later ones in its minute that it stands
// for. In a Kind's value it is
//
//	1 byte   length of what follows
//	3 bytes  milliseconds of the hour
//	3 bytes  calls: this one and later ones of its minute
//	5 bytes  Retry-After, milliseconds
//	1 byte   bytes of the network: 3 of a /24, 6 of a /48, 0 when it is not known
//	         network
//	         id of the request: 16 bytes of a UUID, or text after a zero byte
type Occurrence struct {
	At         int64 // milliseconds of the hour
	Calls      int64 // at least 1
	RetryAfter time.Duration
	Network    netip.Prefix
	Request    string
}

// Encode returns the bytes that store the occurrence.
func (o *Occurrence) Encode() string {
	var network, request []byte
	if o.Network.IsValid() {
		network = o.Network.Addr().AsSlice()[:o.Network.Bits()/8]
	}
	if id, ok := parseUUID(o.Request); ok {
		request = id
	} else if o.Request != "" {
		request = append([]byte{0}, o.Request[:min(len(o.Request), maxRequest)]...)
	}
	b := make([]byte, 0, 1+occurrenceHead+len(network)+len(request))
	b = append(b, byte(cap(b)-1))
	b = appendUint(b, o.At, 3)
	b = appendUint(b, min(o.Calls, maxCalls), 3)
	b = appendUint(b, min((o.RetryAfter+time.Millisecond-1).Milliseconds(), maxRetryAfter), 5)
	b = append(b, byte(len(network)))
	return string(append(append(b, network...), request...))
}

// ParseOccurrences reads the value of a Kind.
func ParseOccurrences(value string) ([]Occurrence, error) {
	if len(value) < valueHead {
		return nil, errLog
	}
	var all []Occurrence
	for rest := value[valueHead:]; rest != ""; {
		length := int(rest[0])
		if len(rest) < 1+length || length < occurrenceHead {
			return nil, errLog
		}
		o, err := parseOccurrence(rest[1 : 1+length])
		if err != nil {
			return nil, err
		}
		all, rest = append(all, o), rest[1+length:]
	}
	return all, nil
}

func parseOccurrence(b string) (Occurrence, error) {
	o := Occurrence{At: uintAt(b, 3), Calls: uintAt(b[3:], 3),
		RetryAfter: time.Duration(uintAt(b[6:], 5)) * time.Millisecond}
	network, rest := int(b[11]), b[occurrenceHead:]
	if len(rest) < network {
		return o, errLog
	}
	switch bytes := [16]byte{}; network {
	case v4Bits / 8:
		o.Network = netip.PrefixFrom(netip.AddrFrom4([4]byte{rest[0], rest[1], rest[2]}), v4Bits)
	case v6Bits / 8:
		copy(bytes[:], rest[:network])
		o.Network = netip.PrefixFrom(netip.AddrFrom16(bytes), v6Bits)
	case 0:
	default:
		return o, errLog
	}
	switch rest = rest[network:]; {
	case len(rest) == uuidLen/2-2:
		o.Request = uuidOf(rest)
	case rest != "" && rest[0] == 0:
		o.Request = rest[1:]
	case rest != "":
		return o, errLog
	}
	return o, nil
}

// appendUint appends the low bytes of n, or of 0 if n is negative.
func appendUint(b []byte, n int64, bytes int) []byte {
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], uint64(max(n, 0)))
	return append(b, all[len(all)-bytes:]...)
}

func uintAt(b string, bytes int) int64 {
	var n int64
	for i := range bytes {
		n = n<<8 | int64(b[i])
	}
	return n
}

// parseUUID reads the id of a request to a REST API, a UUID in lower case.
func parseUUID(text string) ([]byte, bool) {
	if len(text) != uuidLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' ||
		text != strings.ToLower(text) {
		return nil, false
	}
	id, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	return id, err == nil && len(id) == 16
}

func uuidOf(b string) string {
	h := hex.EncodeToString([]byte(b))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
