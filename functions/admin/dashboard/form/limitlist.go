package form

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// LimitList is a list of limits as it was typed.
type LimitList struct {
	// of the list among the form's fields, as policy.FieldError has it: limits,
	// candidate, perKey
	Name  string
	Rows  []LimitInput
	at    []int  // the row of each limit that was read
	Error string // what is wrong with the list as a whole
}

// NewLimitList begins with limits that are in force.
func NewLimitList(name string, limits []limiter.Limit) LimitList {
	l := LimitList{Name: name}
	for _, limit := range limits {
		l.Rows = append(l.Rows, newLimitInput(limit))
	}
	return l
}

// required names the list that every form with one has, and that has at least one limit.
const required = "limits"

// ReadLimitList reads what a browser sent. It fails for a list that is not ours.
func ReadLimitList(values url.Values, name string) (LimitList, error) {
	l := LimitList{Name: name}
	for i := 0; values.Has(l.field(i) + ".requests"); i++ {
		if i == limiter.MaxLimits {
			return LimitList{}, ErrForeign
		}
		l.Rows = append(l.Rows, readLimitInput(values, l.field(i)+"."))
	}
	return l, nil
}

// field is the name of a row's fields up to the dot.
func (l *LimitList) field(i int) string { return fmt.Sprintf("%s[%d]", l.Name, i) }

// Change does what one of the list's buttons says, add:NAME or remove:NAME:ROW, and
// reports whether it was one of them.
func (l *LimitList) Change(button string) bool {
	if button == "add:"+l.Name {
		l.add()
		return true
	}
	row, ok := strings.CutPrefix(button, "remove:"+l.Name+":")
	if i, err := strconv.Atoi(row); ok && err == nil && i >= 0 && i < len(l.Rows) {
		l.Rows = append(l.Rows[:i], l.Rows[i+1:]...)
	}
	return ok
}

// add appends a blank row.
func (l *LimitList) add() {
	if len(l.Rows) < limiter.MaxLimits {
		l.Rows = append(l.Rows, blankInput())
	}
}

func blankInput() LimitInput {
	return LimitInput{Unit: Input{Text: "second"}, Algorithm: Input{Text: limiter.Log.String()}}
}

// Limits returns the limits that were typed. The list keeps what is wrong with them.
func (l *LimitList) Limits() []limiter.Limit {
	var limits []limiter.Limit
	l.at = nil
	for i := range l.Rows {
		if row := &l.Rows[i]; !row.blank() {
			limits, l.at = append(limits, row.limit()), append(l.at, i)
		}
	}
	return limits
}

// SetError notes what the store found wrong and reports whether that is in this list,
// which the store knows as field.
func (l *LimitList) SetError(e policy.FieldError, field string) bool {
	if e.Field == field {
		l.Error = Sentence(e.Message)
		return true
	}
	for limit, row := range l.at {
		name, ok := strings.CutPrefix(e.Field, fmt.Sprintf("%s[%d].", field, limit))
		if in := l.Rows[row].find(name); ok && in != nil {
			in.Error = Sentence(e.Message)
			return true
		}
	}
	return false
}

// ErrorCount counts the fields that are wrong.
func (l *LimitList) ErrorCount() int {
	n := 0
	if l.Error != "" {
		n++
	}
	for i := range l.Rows {
		n += l.Rows[i].errors()
	}
	return n
}

// View shows the list; one that is empty has a blank row to start with.
func (l *LimitList) View(legend, advice string) templates.LimitList {
	rows := l.Rows
	if len(rows) == 0 {
		rows = []LimitInput{blankInput()}
	}
	v := templates.LimitList{Legend: legend, Advice: advice, ID: l.Name, Error: l.Error}
	if len(rows) < limiter.MaxLimits {
		v.Add = "add:" + l.Name
	}
	for i, in := range rows {
		row := templates.LimitRow{
			Number:    strconv.Itoa(i + 1),
			Field:     l.field(i),
			ID:        l.Name + "-" + strconv.Itoa(i),
			Requests:  Field(in.Requests),
			Window:    Field(in.Window),
			Unit:      Field(in.Unit),
			Algorithm: Field(in.Algorithm),
			More:      in.more(),
			Denied:    Field(in.countDenied),
			Shared:    l.isShared(),
			Slots:     Field(in.slots),
			Zone:      Field(in.zone),
			Notify:    Field(in.notify),
			HasMode:   l.Name != "candidate",
			Mode:      Field(in.mode),
			Preview:   preview(in),
		}
		if len(rows) > 1 || l.Name != required && !in.blank() {
			row.Remove = "remove:" + l.Name + ":" + strconv.Itoa(i)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// isShared reports whether several callers share the limits of the list.
func (l *LimitList) isShared() bool {
	return l.Name == "perIP" || l.Name == "shared" || l.Name == "global" ||
		l.Name == "perGroup"
}

// preview reads a copy of the row, so that looking at it leaves no errors in the form.
func preview(in LimitInput) string {
	if in.blank() {
		return ""
	}
	limit := in.limit()
	if in.errors() > 0 {
		return ""
	}
	return policydoc.LimitText(limit)
}

// LimitChoices are what the rows of every list offer.
func LimitChoices() templates.LimitChoices {
	return templates.LimitChoices{
		Units: units(), Methods: methods(), Modes: modes(), Slots: page.Number(limiter.DefaultSlots),
		Bounds: "Up to " + strconv.Itoa(limiter.MaxLimits) + " limits, each 1 to " +
			page.Number(limiter.MaxRequests) +
			" calls in 1 millisecond to 366 days, or in a period of the calendar. A row with nothing " +
			"filled in is left out.",
	}
}

// units lists the units of a window from the longest, then the periods of the calendar.
func units() []templates.Option {
	var all []templates.Option
	for _, u := range limiter.WindowUnits() {
		all = append(all, templates.Option{Value: u, Text: u + "s"})
	}
	for _, c := range limiter.Calendars() {
		name := CalendarPrefix + c.String()
		all = append(all, templates.Option{Value: name, Text: name})
	}
	return all
}

// modes lists what one limit of a list can do to a call.
func modes() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Enforce), Text: "enforce"},
		{Value: string(policy.Shadow), Text: "shadow: count, deny nothing", Mark: string(policy.Shadow)},
	}
}

func methods() []templates.Option {
	names := map[limiter.Algorithm]string{
		limiter.Log:         "log: exact",
		limiter.Counter:     "counter: approximate, least memory",
		limiter.TokenBucket: "token bucket: a burst, then an even rate",
		limiter.FixedWindow: "fixed window: up to twice at a boundary",
	}
	var all []templates.Option
	for _, a := range limiter.Algorithms() {
		text := names[a]
		if text == "" {
			text = a.String()
		}
		option := templates.Option{Value: a.String(), Text: text}
		if a != limiter.Log {
			option.Mark = policydoc.Algorithm(a)
		}
		all = append(all, option)
	}
	return all
}
