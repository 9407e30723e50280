package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// MaxLogRequests is the most Requests of a limit with algorithm Log: it bounds the bytes that one key can take.
const MaxLogRequests = 100_000

// Program is a list of limits compiled for the script: it travels as an argument, or lies stored beside the state it governs.
//
//	1 byte   number of limits
//	1 byte   length of the signature
//	         signature: 1 byte version (1), 1 byte slot width (0 when no limit is a Log), 1 byte number of counters,
//	         6 bytes longest Log window, then 6 bytes window for each counter (microseconds)
//	per limit, in the order given: 4 bytes requests, 1 byte section (0 the log, else the counter's number), 6 bytes window (microseconds)
//
// Integers are big-endian.
type Program []byte

const signatureVersion = 1

// ErrProgram means that bytes are not a Program.
var ErrProgram = errors.New("limiter: not a compiled program")

// ValidateAll reports what is wrong with a list of limits; nil means that Compile accepts it. Every error names the limit by its index.
func ValidateAll(limits []Limit) error {
	if len(limits) < 1 || len(limits) > MaxLimits {
		return fmt.Errorf("limits: %d given, must be 1 to %d", len(limits), MaxLimits)
	}
	var errs []error
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("limits[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Compile validates the limits and lays them out as a Program.
func Compile(limits []Limit) (Program, error) {
	if err := ValidateAll(limits); err != nil {
		return nil, err
	}
	horizon, counters := layout(limits)
	p := make(Program, 0, 2+9+6*len(counters)+11*len(limits))
	p = append(p, byte(len(limits)), byte(9+6*len(counters)), signatureVersion, slotWidth(horizon), byte(len(counters)))
	p = appendMicros(p, horizon)
	for _, w := range counters {
		p = appendMicros(p, w)
	}
	section := byte(0)
	for _, l := range limits {
		p = binary.BigEndian.AppendUint32(p, uint32(l.Requests))
		if l.Algorithm == Log {
			p = append(p, 0)
		} else {
			section++
			p = append(p, section)
		}
		p = appendMicros(p, l.Window)
	}
	return p, nil
}

// Limits is the inverse of Compile.
func (p Program) Limits() ([]Limit, error) {
	if len(p) < 2 || len(p) != 2+int(p[1])+11*int(p[0]) {
		return nil, ErrProgram
	}
	limits := make([]Limit, p[0])
	for i := range limits {
		entry := p[2+int(p[1])+11*i:]
		limits[i] = Limit{Requests: int64(binary.BigEndian.Uint32(entry)), Window: time.Duration(uint48(entry[5:])) * time.Microsecond}
		if entry[4] != 0 {
			limits[i].Algorithm = Counter
		}
	}
	if err := ValidateAll(limits); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	return limits, nil
}

// layout returns the longest Log window (0 without one) and the counters' windows in order.
func layout(limits []Limit) (horizon time.Duration, counters []time.Duration) {
	for _, l := range limits {
		if l.Algorithm == Log {
			horizon = max(horizon, l.Window)
		} else {
			counters = append(counters, l.Window)
		}
	}
	return horizon, counters
}

// slotWidth returns the bytes of a log slot: its low 8*width-1 bits of microseconds must span twice the horizon, before and after the last rewrite.
func slotWidth(horizon time.Duration) byte {
	switch us := horizon.Microseconds(); {
	case us == 0:
		return 0
	case us < 1<<30:
		return 4
	case us < 1<<38:
		return 5
	default:
		return 6
	}
}

func appendMicros(p []byte, d time.Duration) []byte {
	us := d.Microseconds()
	return append(p, byte(us>>40), byte(us>>32), byte(us>>24), byte(us>>16), byte(us>>8), byte(us))
}

func uint48(b []byte) int64 {
	return int64(b[0])<<40 | int64(binary.BigEndian.Uint32(b[1:]))<<8 | int64(b[5])
}

func uint56(b []byte) int64 {
	return int64(b[0])<<48 | uint48(b[1:])
}
