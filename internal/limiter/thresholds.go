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
	return u.Limit.reached(u.Used()-u.Limit.Charge(cost)-u.Limit.slack(), u.Used())
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

// appendThresholds appends the thresholds of limits to their program, if there are any.
func appendThresholds(p Program, limits []Limit) Program {
	if !slices.ContainsFunc(limits, func(l Limit) bool { return l.Notify != Thresholds{} }) {
		return p
	}
	for _, l := range limits {
		percents := l.Notify.Percents()
		p = append(p, byte(len(percents)))
		p = append(p, l.Notify[:len(percents)]...)
	}
	return p
}

// readThresholds sets the thresholds of limits from the end of their program. It returns
// false if that is malformed.
func readThresholds(limits []Limit, p Program) bool {
	for i := range limits {
		if len(p) == 0 || int(p[0]) > MaxThresholds || len(p) < 1+int(p[0]) {
			return false
		}
		copy(limits[i].Notify[:], p[1:1+p[0]])
		p = p[1+p[0]:]
	}
	return len(p) == 0
}
