package usage

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

// Denial says why a call was not let in, for the denial log. Texts that are too long are
// cut.
type Denial struct {
	Cause      cause.Cause
	Plan       string
	Group      string // of the key; empty for none
	Limit      string // that denied, as clients know it; empty for another cause
	Rule       string // name of the route rule; empty when none matches
	Method     string
	Path       string       // pattern of the route, never the path that was called
	API, Stage string       // API Gateway's
	Network    netip.Prefix // a /24 or a /48 of the caller's address; may be invalid
	RetryAfter time.Duration
	Request    string // API Gateway's id of the request
}

// The log of a bucket and an hour is a hash. A field is a group: what denials of one
// caller have in common. All lengths are one byte.
//
//	length, id of the caller; 0 for a caller that Valkey could not verify
//	1 byte cause
//	length, text: of plan, limit, rule, method, path, API and stage, in this order,
//	and of the key's group when it is in one
//
// Its value is
//
//	1 byte   minute of the newest occurrence
//	1 byte   occurrences of that minute
//	2 bytes  where the newest occurrence begins
//	         occurrences, oldest first
//
// An occurrence is
//
//	1 byte   length of what follows
//	3 bytes  milliseconds of the hour
//	3 bytes  calls that it stands for, this one and later ones of its minute
//	5 bytes  Retry-After, milliseconds
//	1 byte   bytes of the network: 3 of a /24, 6 of a /48, 0 when it is not known
//	         network
//	         id of the request: 16 bytes of a UUID, or text after a zero byte
//
// The field "" has the bytes that the log uses; a field of byte 255 and a caller's id has
// the number of its groups. Integers are big-endian.
type group struct {
	minute                                      int64 // since 1970; not part of the field
	registered                                  bool  // likewise
	subject                                     string
	cause                                       cause.Cause
	plan, limit, rule, method, path, api, stage string
	keyGroup                                    string
}

const (
	maxOccurrences = 4   // of a group and minute, as denials.lua has it
	maxText        = 200 // bytes of a text of a group
	maxRequest     = 48  // bytes of a request's id
	occurrenceHead = 3 + 3 + 5 + 1
	maxCalls       = 1<<24 - 1
	maxRetryAfter  = 1<<40 - 1 // milliseconds
	counterField   = "\xff"
	uuidLen        = 36
	v4Bits, v6Bits = 24, 48
)

// NetworkOf returns the part of an address that the log keeps; invalid for an invalid
// one.
func NetworkOf(a netip.Addr) netip.Prefix {
	bits := v6Bits
	if a.Is4() {
		bits = v4Bits
	}
	network, _ := a.Prefix(bits)
	return network
}

func (g *group) texts() []*string {
	return []*string{&g.plan, &g.limit, &g.rule, &g.method, &g.path, &g.api, &g.stage}
}

func (g *group) field() string {
	var b strings.Builder
	b.WriteByte(byte(len(g.subject)))
	b.WriteString(g.subject)
	b.WriteByte(byte(g.cause))
	texts := g.texts()
	if g.keyGroup != "" {
		texts = append(texts, &g.keyGroup)
	}
	for _, text := range texts {
		cut := clip(*text)
		b.WriteByte(byte(len(cut)))
		b.WriteString(cut)
	}
	return b.String()
}

// clip cuts a text that does not fit, between two characters.
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

var errLog = errors.New("usage: an entry of the denial log makes no sense")

// parseGroup reads a field.
func parseGroup(field string) (g group, err error) {
	texts := append([]*string{&g.subject}, g.texts()...)
	texts = append(texts, &g.keyGroup)
	for i, text := range texts {
		if field == "" && text == &g.keyGroup {
			break
		}
		if i == 1 {
			if field == "" {
				return g, errLog
			}
			g.cause, field = cause.Cause(field[0]), field[1:]
		}
		if field == "" || len(field) < 1+int(field[0]) {
			return g, errLog
		}
		*text, field = field[1:1+field[0]], field[1+field[0]:]
	}
	return g, nil
}

// occurrence is one denial, and how many later ones of its minute it stands for.
type occurrence struct {
	at         int64 // milliseconds of the hour
	calls      int64
	retryAfter time.Duration
	network    netip.Prefix
	request    string
}

func (o *occurrence) encode() string {
	var network, request []byte
	if o.network.IsValid() {
		network = o.network.Addr().AsSlice()[:o.network.Bits()/8]
	}
	if id, ok := parseUUID(o.request); ok {
		request = id
	} else if o.request != "" {
		request = append([]byte{0}, o.request[:min(len(o.request), maxRequest)]...)
	}
	b := make([]byte, 0, 1+occurrenceHead+len(network)+len(request))
	b = append(b, byte(cap(b)-1))
	b = appendUint(b, o.at, 3)
	b = appendUint(b, min(o.calls, maxCalls), 3)
	b = appendUint(b, min(o.retryAfter.Milliseconds(), maxRetryAfter), 5)
	b = append(b, byte(len(network)))
	return string(append(append(b, network...), request...))
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

const valueHead = 4

// parseOccurrences reads a value.
func parseOccurrences(value string) ([]occurrence, error) {
	if len(value) < valueHead {
		return nil, errLog
	}
	var all []occurrence
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

func parseOccurrence(b string) (occurrence, error) {
	o := occurrence{at: uintAt(b, 3), calls: uintAt(b[3:], 3),
		retryAfter: time.Duration(uintAt(b[6:], 5)) * time.Millisecond}
	network, rest := int(b[11]), b[occurrenceHead:]
	if len(rest) < network {
		return o, errLog
	}
	switch bytes := [16]byte{}; network {
	case v4Bits / 8:
		o.network = netip.PrefixFrom(netip.AddrFrom4([4]byte{rest[0], rest[1], rest[2]}), v4Bits)
	case v6Bits / 8:
		copy(bytes[:], rest[:network])
		o.network = netip.PrefixFrom(netip.AddrFrom16(bytes), v6Bits)
	case 0:
	default:
		return o, errLog
	}
	switch rest = rest[network:]; {
	case len(rest) == uuidLen/2-2:
		o.request = uuidOf(rest)
	case rest != "" && rest[0] == 0:
		o.request = rest[1:]
	case rest != "":
		return o, errLog
	}
	return o, nil
}
