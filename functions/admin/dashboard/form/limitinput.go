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

// LimitInput holds the typed fields of a limit, which is a row of a LimitList. A blank
// row is no limit.
type LimitInput struct {
	Requests, Window, Unit, Algorithm Input
	zone, slots, notify               Input
	countDenied                       Input // any text means checked
	mode, counts                      Input
}

// What a limit counts.
const (
	countsCost  = "cost"
	countsCalls = "calls"
)

// CalendarPrefix is the prefix of a unit that is a calendar period.
const CalendarPrefix = "calendar "

func newLimitInput(l limiter.Limit) LimitInput {
	in := LimitInput{
		Requests:  Input{Text: page.Number(l.Requests)},
		Window:    Input{Text: "1"},
		Unit:      Input{Text: CalendarPrefix + l.Calendar.String()},
		Algorithm: Input{Text: l.Algorithm.String()},
		zone:      Input{Text: l.Zone},
		mode:      Input{Text: string(policy.Enforce)},
		counts:    Input{Text: countsCost},
	}
	if l.Shadow {
		in.mode.Text = string(policy.Shadow)
	}
	if l.Calls {
		in.counts.Text = countsCalls
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
		mode: read("mode"), counts: read("counts"),
	}
}

// fields returns the fields by their names in a limiter.FieldError.
func (l *LimitInput) fields() map[string]*Input {
	return map[string]*Input{
		"requests": &l.Requests, "window": &l.Window, "calendar": &l.Unit, "algorithm": &l.Algorithm,
		"zone": &l.zone, "slots": &l.slots, "notify": &l.notify, "countDenied": &l.countDenied,
		"mode": &l.mode, "counts": &l.counts,
	}
}

// errors returns the number of fields with an error.
func (l *LimitInput) errors() int {
	return CountErrors(l.Requests, l.Window, l.Unit, l.Algorithm, l.zone, l.slots, l.notify,
		l.countDenied, l.mode, l.counts)
}

// blank reports whether the row is empty. The algorithm and a unit of time are ignored,
// since they always have a value.
func (l *LimitInput) blank() bool {
	typed := l.Requests.Text + l.Window.Text + l.zone.Text + l.slots.Text + l.notify.Text +
		l.countDenied.Text
	return strings.TrimSpace(typed) == "" && !strings.HasPrefix(l.Unit.Text, CalendarPrefix)
}

// more reports whether one of the optional fields is set or has an error.
func (l *LimitInput) more() bool {
	for _, in := range []Input{l.zone, l.slots, l.notify, l.countDenied} {
		if strings.TrimSpace(in.Text) != "" || in.Error != "" {
			return true
		}
	}
	return l.mode.Text == string(policy.Shadow) || l.mode.Error != "" ||
		l.counts.Text == countsCalls || l.counts.Error != ""
}

// limit returns the typed limit. It sets the errors of invalid fields.
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
	switch l.counts.Text {
	case countsCalls:
		limit.Calls = true
	case "", countsCost:
	default:
		l.counts.Error = ChooseFromList
	}
	algorithm, err := limiter.ParseAlgorithm(l.Algorithm.Text)
	if err != nil {
		l.Algorithm.Error = ChooseFromList
	}
	limit.Algorithm = algorithm
	if l.Unit.Error == "" && l.Algorithm.Error == "" {
		l.checkBounds(limit)
	}
	return limit
}

// checkBounds sets the errors of an invalid limit, at fields that have no error yet.
func (l *LimitInput) checkBounds(limit limiter.Limit) {
	fields := l.fields()
	for _, e := range limit.Errors() {
		if in := fields[e.Field]; in != nil && in.Error == "" {
			in.Error = advice(e, limit)
		}
	}
}

const notifyAdvice = "Enter up to 5 percentages in ascending order, such as 80, 100."

// advice returns the error of a field: how to correct it, in the terms of the form.
func advice(e limiter.FieldError, l limiter.Limit) string {
	switch e.Field {
	case "calendar":
		return "Only the fixed window algorithm has calendar units. Choose it, or another unit."
	case "countDenied":
		return "Only the log algorithm can count denied calls. Choose it, or clear this."
	case "notify":
		switch {
		case l.CountDenied:
			return "A limit that counts denied calls cannot alert. Clear one of the two."
		case l.Span() < limiter.MinNotifyWindow:
			return "Alerts need a window of 1 minute or more. Lengthen it, or leave this blank."
		}
		return notifyAdvice
	case "slots":
		return "Only the log algorithm has slots. Choose it, or leave this blank."
	case "zone":
		if l.Calendar == limiter.NoCalendar {
			return "Only calendar units have a time zone. Choose one, or leave this blank."
		}
		return "Enter a time zone such as Europe/Berlin, or leave this blank for UTC."
	}
	return Sentence(e.Message)
}

// Period returns the typed window, or the calendar period and no window. It sets the
// errors of invalid fields.
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
		l.Window.Error = "Enter 1 with a calendar unit, or leave this blank."
	}
	return 0, calendar
}

// duration returns the typed window. An error states its bounds in the typed unit.
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
