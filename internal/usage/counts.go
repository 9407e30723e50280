package usage

import (
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
)

// Counts are numbers of calls. Calls that other fields count are Allowed or Denied too.
type Counts struct {
	Allowed      int64
	Denied       int64
	ShadowDenied int64 // that a limit in shadow mode would have denied
	Degraded     int64 // decided without Valkey
	Cost         int64 // sum of the costs of the allowed calls
	Unlisted     int64 // whose subject has no counts of its own; only in totals
	OldSecret    int64 // with the previous secret
}

// Calls returns the number of calls.
func (c Counts) Calls() int64 { return c.Allowed + c.Denied }

// Plus returns the sum.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		c.Allowed + d.Allowed, c.Denied + d.Denied, c.ShadowDenied + d.ShadowDenied,
		c.Degraded + d.Degraded, c.Cost + d.Cost, c.Unlisted + d.Unlisted,
		c.OldSecret + d.OldSecret,
	}
}

// Point is the counts from Start until the next point.
type Point struct {
	Start time.Time
	Counts
}

// Sum adds up a series.
func Sum(points []Point) Counts {
	var sum Counts
	for _, p := range points {
		sum = sum.Plus(p.Counts)
	}
	return sum
}

// kind is the number of a count in stored fields.
type kind int

const (
	allowed kind = iota
	denied
	shadowDenied
	degraded
	extraCost // above one, of allowed calls
	unlisted
	oldSecret
)

// Indexes in a tally of refusals of what the logs do not list. Such a tally counts by
// cause instead of kind; these follow the causes.
const (
	unlogged = kind(cause.Refusals + iota)
	unloggedTrials
)

// Numbers of fields of a minute or an hour.
const (
	kindsPerSlot  = 8
	causesPerSlot = 16
)

// tally counts by kind, or by cause.
type tally [unloggedTrials + 1]int64

// add counts a call.
func (t *tally) add(v Verdict, cost int64) {
	if v&Denied != 0 {
		t[denied]++
	} else {
		t[allowed]++
		t[extraCost] += cost - 1
	}
	if v&ShadowDenied != 0 {
		t[shadowDenied]++
	}
	if v&Degraded != 0 {
		t[degraded]++
	}
	if v&OldSecret != 0 {
		t[oldSecret]++
	}
}

func (t *tally) merge(other *tally) {
	for k, n := range other {
		t[k] += n
	}
}

func (t *tally) calls() int64 { return t[allowed] + t[denied] }

func (t *tally) counts() Counts {
	return Counts{
		Allowed: t[allowed], Denied: t[denied], ShadowDenied: t[shadowDenied],
		Degraded: t[degraded], Cost: t[allowed] + t[extraCost], Unlisted: t[unlisted],
		OldSecret: t[oldSecret],
	}
}

// eachCount calls do for each count of a stored hash. width is kindsPerSlot or
// causesPerSlot. It skips fields that another version wrote.
func eachCount(result valkey.ValkeyResult, width int64, do func(slot int64, k kind, n int64)) error {
	fields, err := result.AsStrMap()
	if err != nil {
		return err
	}
	for field, text := range fields {
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil || number < 0 || number%width >= int64(len(tally{})) {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		do(number/width, kind(number%width), n)
	}
	return nil
}
