package limits

import (
	"strconv"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// Words of a limit.
const (
	noLimitWords     = "no limit"
	countDeniedWords = "denied calls count"
	notifyWord       = "notify at "
	shadowWord       = "shadow"
	togetherWord     = "together"
	onWord           = "on "
	exceptWord       = "except "
	eachWord         = "each "
	atOnceWords      = " at once"
	upToWord         = "up to "
	utc              = "UTC"
)

// String returns the limit in words: "30 calls per minute, on search, each caller". Parse
// is its inverse. Two limits with the same words are the same limit.
func (l Limit) String() string {
	return strings.Join(append([]string{l.Rate()}, l.Marks()...), ", ")
}

// Rate returns how many and per what time: "1,000 per 10 minutes", "500 calls per minute",
// "1,000 per calendar month (Europe/Berlin)", "10,000 per billing month", "no limit".
func (l Limit) Rate() string {
	unit := ""
	if l.Unit != Cost {
		unit = " " + l.Unit
	}
	switch {
	case l.Lifted && l.AtOnce:
		return noLimitWords + atOnceWords
	case l.Lifted:
		return noLimitWords + unit
	case l.AtOnce:
		return Number(l.Requests) + atOnceWords
	case l.Calendar == calendar.BillingMonth:
		return Number(l.Requests) + unit + " per " + l.Calendar.String()
	case l.Calendar != calendar.None && l.Zone != "":
		return Number(l.Requests) + unit + " per calendar " + l.Calendar.String() + " (" + l.Zone + ")"
	case l.Calendar != calendar.None:
		return Number(l.Requests) + unit + " per calendar " + l.Calendar.String()
	}
	return Number(l.Requests) + unit + " per " + strings.TrimPrefix(FormatWindow(l.Window), "1 ")
}

// Marks returns the words after the rate, in their usual order.
func (l Limit) Marks() []string {
	var marks []string
	add := func(mark string) {
		if mark != "" {
			marks = append(marks, mark)
		}
	}
	if l.On != "" {
		add(onWord + l.On)
	}
	for _, text := range l.Except {
		add(exceptWord + text)
	}
	add(l.For())
	if l.AtOnce && !l.Lifted && l.Window != DefaultUpTo {
		add(upToWord + FormatWindow(l.Window))
	}
	if l.Algorithm != limiter.Log && l.Calendar == calendar.None ||
		l.Calendar != calendar.None && l.Algorithm != limiter.FixedWindow {
		add(Algorithm(l.Algorithm))
	}
	if l.CountDenied {
		add(countDeniedWords)
	}
	if len(l.Notify) > 0 {
		add(notifyWord + percents(l.Notify))
	}
	if l.Shadow {
		add(shadowWord)
	}
	return marks
}

func percents(list []int) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = strconv.Itoa(p)
	}
	return strings.Join(words, "/") + " %"
}

// algorithms has the words of each algorithm, by its number.
var algorithms = [...]string{limiter.Log: "exact", limiter.Counter: "counter",
	limiter.TokenBucket: "token bucket", limiter.FixedWindow: "fixed window"}

// Algorithm returns the words of an algorithm.
func Algorithm(a limiter.Algorithm) string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return a.String()
}

func algorithmWords() string { return strings.Join(algorithms[:], ", ") }
