package form

import (
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// LimitInput is one row of the form. A row with nothing filled in is blank and means
// nothing.
type LimitInput struct {
	Requests, Window, Unit, Algorithm Input
	zone, slots, notify               Input
	countDenied                       Input // any text is yes
	mode                              Input
}

// What inputs hold: at most MaxInput characters, more than any number or time zone needs;
// Checked when a box is ticked; CalendarPrefix before a unit of the calendar.
const (
	MaxInput       = 80
	Checked        = "yes"
	CalendarPrefix = "calendar "
)

func newLimitInput(l limiter.Limit) LimitInput {
	in := LimitInput{
		Requests:  Input{Text: page.Number(l.Requests)},
		Window:    Input{Text: "1"},
		Unit:      Input{Text: CalendarPrefix + l.Calendar.String()},
		Algorithm: Input{Text: l.Algorithm.String()},
		zone:      Input{Text: l.Zone},
		mode:      Input{Text: string(policy.Enforce)},
	}
	if l.Shadow {
		in.mode.Text = string(policy.Shadow)
	}
	if l.Calendar == limiter.NoCalendar {
		count, unit := limiter.SplitWindow(l.Window)
		in.Window.Text, in.Unit.Text = page.Number(count), unit
	}
	if l.Slots != 0 {
		in.slots.Text = page.Number(int64(l.Slots))
	}
	in.notify.Text = strings.ReplaceAll(strings.TrimSuffix(l.Notify.String(), " %"), "/", ", ")
	if l.CountDenied {
		in.countDenied.Text = Checked
	}
	return in
}

func readLimitInput(values url.Values, prefix string) LimitInput {
	read := func(name string) Input { return Input{Text: page.Clip(values.Get(prefix+name), MaxInput)} }
	return LimitInput{
		Requests: read("requests"), Window: read("window"), Unit: read("unit"), Algorithm: read("algorithm"),
		zone: read("zone"), slots: read("slots"), notify: read("notify"), countDenied: read("countDenied"),
		mode: read("mode"),
	}
}

// errors counts the fields that are wrong.
func (l *LimitInput) errors() int {
	n := 0
	for _, in := range []Input{l.Requests, l.Window, l.Unit, l.Algorithm, l.zone, l.slots, l.notify,
		l.countDenied, l.mode} {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// find returns the field with a name that limiter.FieldError uses.
func (l *LimitInput) find(name string) *Input {
	switch name {
	case "requests":
		return &l.Requests
	case "window":
		return &l.Window
	case "calendar":
		return &l.Unit
	case "algorithm":
		return &l.Algorithm
	case "zone":
		return &l.zone
	case "slots":
		return &l.slots
	case "notify":
		return &l.notify
	case "countDenied":
		return &l.countDenied
	case "mode":
		return &l.mode
	}
	return nil
}

// blank ignores the unit and the algorithm, which always have a value; but a calendar
// unit is a window on its own.
func (l *LimitInput) blank() bool {
	typed := l.Requests.Text + l.Window.Text + l.zone.Text + l.slots.Text + l.notify.Text +
		l.countDenied.Text
	return strings.TrimSpace(typed) == "" && !strings.HasPrefix(l.Unit.Text, CalendarPrefix)
}

// more reports whether one of the rarer fields says something, or has something wrong.
func (l *LimitInput) more() bool {
	for _, in := range []Input{l.zone, l.slots, l.notify, l.countDenied} {
		if strings.TrimSpace(in.Text) != "" || in.Error != "" {
			return true
		}
	}
	return l.mode.Text == string(policy.Shadow) || l.mode.Error != ""
}

// limit reads the row and notes what is wrong with it.
func (l *LimitInput) limit() limiter.Limit {
	limit := limiter.Limit{
		Requests:    l.Requests.Whole("Enter the number of calls.", 1, limiter.MaxRequests),
		CountDenied: l.countDenied.Text != "",
		Zone:        strings.TrimSpace(l.zone.Text),
	}
	limit.Window, limit.Calendar = l.Period()
	if strings.TrimSpace(l.slots.Text) != "" {
		limit.Slots = int(l.slots.Whole("", limiter.MinSlots, limiter.MaxSlots))
	}
	percents, err := policydoc.ParsePercents(l.notify.Text)
	if err != nil {
		l.notify.Error = notifyAdvice
	}
	limit.Notify = limiter.NewThresholds(percents)
	switch policy.Mode(l.mode.Text) {
	case policy.Shadow:
		limit.Shadow = true
	case "", policy.Enforce:
	default:
		l.mode.Error = ChooseFromList
	}
	algorithm, err := limiter.ParseAlgorithm(l.Algorithm.Text)
	if err != nil {
		l.Algorithm.Error = ChooseFromList
	}
	limit.Algorithm = algorithm
	if l.Unit.Error == "" && l.Algorithm.Error == "" {
		l.bound(limit)
	}
	return limit
}

// bound notes which bounds a limit breaks in fields that could be read.
func (l *LimitInput) bound(limit limiter.Limit) {
	for _, e := range limit.Errors() {
		if in := l.find(e.Field); in != nil && in.Error == "" {
			in.Error = advice(e, limit)
		}
	}
}

const notifyAdvice = "Enter up to 5 percentages in ascending order, such as 80, 100."

// advice says how to mend what is wrong with a field, in the words of the form.
func advice(e limiter.FieldError, l limiter.Limit) string {
	switch e.Field {
	case "calendar":
		return "Only a fixed window follows the calendar: choose that algorithm, or another unit."
	case "countDenied":
		return "Only the log can count denied calls: choose that algorithm, or clear this."
	case "notify":
		switch {
		case l.CountDenied:
			return "Only a limit that counts no denied calls can notify: clear one of the two."
		case l.Span() < limiter.MinNotifyWindow:
			return "Choose a window of 1 minute or more, or leave this blank."
		}
		return notifyAdvice
	case "slots":
		return "Only the log has slots: choose that algorithm, or leave this blank."
	case "zone":
		if l.Calendar == limiter.NoCalendar {
			return "Only a calendar has a time zone: choose a calendar unit, or leave this blank."
		}
		return "Enter a time zone, such as Europe/Berlin, or leave it blank for UTC."
	}
	return Sentence(e.Message)
}

// Period reads the window and its unit, of which a calendar's is one period at a time.
func (l *LimitInput) Period() (time.Duration, limiter.Calendar) {
	name, ok := strings.CutPrefix(l.Unit.Text, CalendarPrefix)
	if !ok {
		return l.duration(), limiter.NoCalendar
	}
	calendar, err := limiter.ParseCalendar(name)
	if err != nil || calendar == limiter.NoCalendar {
		l.Unit.Error = ChooseFromList
	}
	if count := strings.TrimSpace(l.Window.Text); count != "" && count != "1" {
		l.Window.Error = "Enter 1 with a calendar unit, or leave it blank."
	}
	return 0, calendar
}

// duration reads a window that is no calendar's. Its bounds are in the row's unit.
func (l *LimitInput) duration() time.Duration {
	unit, err := limiter.JoinWindow(1, l.Unit.Text)
	if err != nil {
		l.Unit.Error = ChooseFromList
		return 0
	}
	most := int64(limiter.MaxWindow / unit)
	count := l.Window.count("Enter the window length.", 1, most, " "+strings.TrimSuffix(l.Unit.Text, "s")+"s")
	if l.Window.Error != "" {
		return 0
	}
	return time.Duration(count) * unit
}
