package limiter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a limit's Thresholds.
const (
	MaxThresholds   = 5           // the most thresholds of one limit
	MinNotifyWindow = time.Minute // the shortest window of a limit with thresholds
)

// Thresholds are percentages of a limit, 1 to 100, in ascending order and padded with
// zeros. A call crosses a threshold if it raises the usage of the limit from below the
// threshold to it or above. Scripts ignore thresholds: a Program carries them for readers
// of the reply.
type Thresholds [MaxThresholds]uint8

// NewThresholds returns a list of percentages as Thresholds, in its order. If one is out
// of range or there are more than MaxThresholds, Limit.Errors reports the result as
// invalid.
func NewThresholds(percents []int) (t Thresholds) {
	for i, p := range percents {
		if i >= MaxThresholds || p < 1 || p > 100 {
			t[MaxThresholds-1] = 255
			continue
		}
		t[i] = uint8(p)
	}
	return t
}

// Percents lists the thresholds; nil for none.
func (t Thresholds) Percents() []int {
	var all []int
	for _, p := range t {
		if p != 0 {
			all = append(all, int(p))
		}
	}
	return all
}

// String formats the thresholds as "80/100 %"; empty for none.
func (t Thresholds) String() string {
	if t == (Thresholds{}) {
		return ""
	}
	words := make([]string, 0, MaxThresholds)
	for _, p := range t.Percents() {
		words = append(words, strconv.Itoa(p))
	}
	return strings.Join(words, "/") + " %"
}

// valid reports whether the thresholds are 1 to 100 and ascend.
func (t Thresholds) valid() bool {
	last := uint8(0)
	for i, p := range t {
		if p == 0 {
			return !slices.ContainsFunc(t[i:], func(p uint8) bool { return p != 0 })
		}
		if p <= last || p > 100 {
			return false
		}
		last = p
	}
	return true
}

// notifyProblem returns the problem of a limit's thresholds; empty for none.
func (l Limit) notifyProblem() string {
	switch {
	case l.Notify == Thresholds{}:
		return ""
	case !l.Notify.valid():
		return fmt.Sprintf("must be up to %d percentages from 1 to 100, in ascending order", MaxThresholds)
	case l.CountDenied:
		return "is set, but denied calls count: leave it out, or leave countDenied out"
	case l.Span() < MinNotifyWindow && l.windowProblem() == "":
		return fmt.Sprintf("is set, but the window is %s: use at least 1 minute", FormatWindow(l.Window))
	}
	return ""
}

// Crossed lists the thresholds that a call of this cost crossed. u is the usage after the
// call. For a log with grouped slots it may include thresholds that were crossed before.
func (u Usage) Crossed(cost int64) (percents []int) {
	if u.Limit.Notify == (Thresholds{}) {
		return nil
	}
	return u.Limit.reached(u.Used()-cost-u.Limit.slack(), u.Used())
}

// reached lists the thresholds that are above the usage before and not above the usage
// after.
func (l Limit) reached(before, after int64) (percents []int) {
	for _, p := range l.Notify.Percents() {
		if at := (l.Requests*int64(p) + 99) / 100; before < at && at <= after {
			percents = append(percents, p)
		}
	}
	return percents
}

// slack returns by how much more than its cost a call may raise the usage of the limit.
// In a log with grouped slots, a call may move up to one slot's calls back into a window
// that they had left.
func (l Limit) slack() int64 {
	if l.Algorithm != Log {
		return 0
	}
	return l.group() - 1
}

// thresholdsMark begins the name of an entry that looks like a time zone without shifts
// to scripts, and to releases before Thresholds. After the mark, the name has for each
// limit with thresholds: 1 byte index, 1 byte number of thresholds, 1 byte for each.
const thresholdsMark = '%'

// appendThresholds appends the thresholds of limits to their program, after the zones.
func appendThresholds(p Program, limits []Limit) Program {
	text := []byte{thresholdsMark}
	for i, l := range limits {
		if percents := l.Notify.Percents(); len(percents) > 0 {
			text = append(text, byte(i), byte(len(percents)))
			text = append(text, l.Notify[:len(percents)]...)
		}
	}
	if len(text) == 1 {
		return p
	}
	return append(append(append(p, byte(len(text))), text...), 0)
}

// readThresholds sets the thresholds of limits from the name that appendThresholds wrote.
// It returns false for a malformed name.
func readThresholds(limits []Limit, name string) bool {
	for name = name[1:]; name != ""; {
		if len(name) < 2 || int(name[0]) >= len(limits) || int(name[1]) > MaxThresholds ||
			len(name) < 2+int(name[1]) {
			return false
		}
		end := 2 + int(name[1])
		copy(limits[name[0]].Notify[:], name[2:end])
		name = name[end:]
	}
	return true
}
