package dashboard

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter"
)

// limitInput is one row of the form. A row with nothing filled in is blank and means
// nothing.
type limitInput struct {
	requests, window, unit, algorithm input
	zone, slots                       input
	countDenied                       input // any text is yes
}

// input is a field's text and what is wrong with it.
type input struct{ text, wrong string }

const (
	maxInput       = 80 // more characters than any number or time zone needs; bounds what is sent back
	checked        = "yes"
	calendarPrefix = "calendar "
)

var (
	ungrouped = regexp.MustCompile(`^[0-9]+$`)
	grouped   = regexp.MustCompile(`^[0-9]{1,3}([,_ \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)
)

// calendars lists the calendar periods that a form offers.
func calendars() []limiter.Calendar {
	return []limiter.Calendar{limiter.Minute, limiter.Hour, limiter.Day, limiter.Month}
}

func newLimitInput(l limiter.Limit) limitInput {
	in := limitInput{
		requests:  input{text: number(l.Requests)},
		window:    input{text: "1"},
		unit:      input{text: calendarPrefix + l.Calendar.String()},
		algorithm: input{text: l.Algorithm.String()},
		zone:      input{text: l.Zone},
	}
	if l.Calendar == limiter.NoCalendar {
		count, unit := limiter.SplitWindow(l.Window)
		in.window.text, in.unit.text = number(count), unit
	}
	if l.Slots != 0 {
		in.slots.text = number(int64(l.Slots))
	}
	if l.CountDenied {
		in.countDenied.text = checked
	}
	return in
}

func readLimitInput(values url.Values, prefix string) limitInput {
	read := func(name string) input { return input{text: clip(values.Get(prefix+name), maxInput)} }
	return limitInput{
		requests: read("requests"), window: read("window"), unit: read("unit"), algorithm: read("algorithm"),
		zone: read("zone"), slots: read("slots"), countDenied: read("countDenied"),
	}
}

// errors counts the fields that are wrong.
func (l *limitInput) errors() int {
	n := 0
	for _, in := range []input{l.requests, l.window, l.unit, l.algorithm, l.zone, l.slots, l.countDenied} {
		if in.wrong != "" {
			n++
		}
	}
	return n
}

// find returns the field with a name that limiter.FieldError uses.
func (l *limitInput) find(name string) *input {
	switch name {
	case "requests":
		return &l.requests
	case "window":
		return &l.window
	case "calendar":
		return &l.unit
	case "algorithm":
		return &l.algorithm
	case "zone":
		return &l.zone
	case "slots":
		return &l.slots
	case "countDenied":
		return &l.countDenied
	}
	return nil
}

// blank ignores the unit and the algorithm, which always have a value; but a calendar
// unit is a window on its own.
func (l *limitInput) blank() bool {
	typed := l.requests.text + l.window.text + l.zone.text + l.slots.text + l.countDenied.text
	return strings.TrimSpace(typed) == "" && !strings.HasPrefix(l.unit.text, calendarPrefix)
}

// more tells whether one of the rarer fields says something, or has something wrong.
func (l *limitInput) more() bool {
	for _, in := range []input{l.zone, l.slots, l.countDenied} {
		if strings.TrimSpace(in.text) != "" || in.wrong != "" {
			return true
		}
	}
	return false
}

// limit reads the row and notes what is wrong with it.
func (l *limitInput) limit() limiter.Limit {
	limit := limiter.Limit{
		Requests:    l.requests.whole("Type how many calls are allowed.", 1, limiter.MaxRequests),
		CountDenied: l.countDenied.text != "",
		Zone:        strings.TrimSpace(l.zone.text),
	}
	limit.Window, limit.Calendar = l.period()
	if strings.TrimSpace(l.slots.text) != "" {
		limit.Slots = int(l.slots.whole("", limiter.MinSlots, limiter.MaxSlots))
	}
	algorithm, err := limiter.ParseAlgorithm(l.algorithm.text)
	if err != nil {
		l.algorithm.wrong = chooseFromList
	}
	limit.Algorithm = algorithm
	if l.unit.wrong == "" && l.algorithm.wrong == "" {
		l.bound(limit)
	}
	return limit
}

// bound notes which bounds a limit breaks in fields that could be read.
func (l *limitInput) bound(limit limiter.Limit) {
	for _, e := range limit.Errors() {
		if in := l.find(e.Field); in != nil && in.wrong == "" {
			in.wrong = advice(e, limit)
		}
	}
}

// advice says how to mend what is wrong with a field, in the words of the form.
func advice(e limiter.FieldError, l limiter.Limit) string {
	switch e.Field {
	case "calendar":
		return "Only a fixed window follows the calendar: choose that algorithm, or another unit."
	case "countDenied":
		return "Only the log can count denied calls: choose that algorithm, or clear this."
	case "slots":
		return "Only the log has slots: choose that algorithm, or leave this blank."
	case "zone":
		if l.Calendar == limiter.NoCalendar {
			return "Only a calendar has a time zone: choose a calendar unit, or leave this blank."
		}
		return "Type the name of a time zone, such as Europe/Berlin, or leave this blank for UTC."
	}
	return sentence(e.Message)
}

const chooseFromList = "Choose one from the list."

// period reads the window and its unit, of which a calendar's is one period at a time.
func (l *limitInput) period() (time.Duration, limiter.Calendar) {
	name, ok := strings.CutPrefix(l.unit.text, calendarPrefix)
	if !ok {
		return l.duration(), limiter.NoCalendar
	}
	calendar, err := limiter.ParseCalendar(name)
	if err != nil || calendar == limiter.NoCalendar {
		l.unit.wrong = chooseFromList
	}
	if count := strings.TrimSpace(l.window.text); count != "" && count != "1" {
		l.window.wrong = "Type 1 with a calendar unit, or nothing."
	}
	return 0, calendar
}

func (l *limitInput) duration() time.Duration {
	count := l.window.whole("Type how long the window is.", 1, int64(limiter.MaxWindow/limiter.MinWindow))
	if l.window.wrong != "" {
		return 0
	}
	window, err := limiter.JoinWindow(count, l.unit.text)
	switch {
	case err == nil:
	case unknownUnit(l.unit.text):
		l.unit.wrong = chooseFromList
	default:
		l.window.wrong = "The window must be 1 millisecond to 366 days."
	}
	return window
}

// whole returns the number that was typed, least to most, and notes if it is none.
func (in *input) whole(missing string, least, most int64) int64 {
	text := strings.TrimSpace(in.text)
	if text == "" {
		in.wrong = missing
		return 0
	}
	if !ungrouped.MatchString(text) && !grouped.MatchString(text) {
		in.wrong = "Type a whole number, such as 100 or 1,000."
		return 0
	}
	n, err := strconv.ParseInt(strings.Map(onlyDigit, text), 10, 64)
	if err != nil || n < least || n > most {
		in.wrong = "Must be " + number(least) + " to " + number(most) + "."
	}
	return n
}

func onlyDigit(c rune) rune {
	if c < '0' || c > '9' {
		return -1
	}
	return c
}

func unknownUnit(unit string) bool {
	_, err := limiter.JoinWindow(1, unit)
	return err != nil
}

// sentence makes a message of another package fit for a page.
func sentence(message string) string {
	if message == "" {
		return "This is not valid."
	}
	if strings.HasPrefix(message, "is ") {
		message = "it " + message
	}
	return strings.ToUpper(message[:1]) + strings.TrimSuffix(message[1:], ".") + "."
}
