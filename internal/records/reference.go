package records

import (
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// Reference names a denial: the caller, the minute and the limit. A client gets its text
// and may pass it on. It contains nothing secret, and nothing is stored for it.
type Reference struct {
	Caller string
	Minute time.Time
	// check is a checksum of the kind, by which Reader.Find tells the caller's denials of
	// the minute apart.
	check uint32
}

// ReferenceOf returns the reference of a denied or refused call. It is zero for a caller
// that proved nothing.
func ReferenceOf(c *Call) Reference {
	if !validID(c.Caller) {
		return Reference{}
	}
	return Reference{c.Caller, c.Time.UTC().Truncate(time.Minute), checksum(c.kind())}
}

func checksum(kind string) uint32 { return crc32.ChecksumIEEE([]byte(kind)) }

// String returns the text: the caller's id, the minute since 1970 and the checksum,
// numbers in base 36. It is empty for the zero Reference.
func (r Reference) String() string {
	if r.Caller == "" {
		return ""
	}
	return r.Caller + "." + strconv.FormatInt(minutes.slotOf(r.Minute), 36) + "." +
		strconv.FormatUint(uint64(r.check), 36)
}

// ParseReference reads the text of a Reference. It reports whether the text has that form.
func ParseReference(text string) (r Reference, ok bool) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) < 3 {
		return r, false
	}
	caller := strings.Join(parts[:len(parts)-2], ".")
	minute, minuteErr := strconv.ParseInt(parts[len(parts)-2], 36, 40)
	check, checkErr := strconv.ParseUint(parts[len(parts)-1], 36, 32)
	if minuteErr != nil || checkErr != nil || minute < 0 || !validID(caller) {
		return r, false
	}
	return Reference{caller, minutes.start(minute), uint32(check)}, true
}
