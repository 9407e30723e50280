package denylog

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"time"
)

// MaxOccurrences is how many occurrences of a kind and minute a value holds, as
// denials.lua has it.
const MaxOccurrences = 4

const (
	occurrenceHead = 3 + 3 + 5 + 1
	maxCalls       = 1<<24 - 1
	maxRetryAfter  = 1<<40 - 1 // milliseconds
	maxRequest     = 48        // bytes of a request's id
	uuidLen        = 36
	v4Bits, v6Bits = 24, 48
)

// Occurrence is one denial, and how many later ones of its minute it stands for. In a
// Kind's value it is
//
//	1 byte   length of what follows
//	3 bytes  milliseconds of the hour
//	3 bytes  calls that it stands for, this one and later ones of its minute
//	5 bytes  Retry-After, milliseconds
//	1 byte   bytes of the network: 3 of a /24, 6 of a /48, 0 when it is not known
//	         network
//	         id of the request: 16 bytes of a UUID, or text after a zero byte
type Occurrence struct {
	At         int64 // milliseconds of the hour
	Calls      int64
	RetryAfter time.Duration
	Network    netip.Prefix
	Request    string
}

// Encode returns its bytes in a value.
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
	b = appendUint(b, min(o.RetryAfter.Milliseconds(), maxRetryAfter), 5)
	b = append(b, byte(len(network)))
	return string(append(append(b, network...), request...))
}

const valueHead = 4

// ParseOccurrences reads a value.
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

// appendUint adds the low bytes of a number.
func appendUint(b []byte, n int64, bytes int) []byte {
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], uint64(max(n, 0)))
	return append(b, all[8-bytes:]...)
}

func uintAt(b string, bytes int) int64 {
	var n int64
	for i := range bytes {
		n = n<<8 | int64(b[i])
	}
	return n
}

// parseUUID reads the form of a request's id at REST APIs, lower-case.
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
