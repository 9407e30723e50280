package dashboard

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// limitList is a list of limits as it was typed.
type limitList struct {
	// of the list among the form's fields, as policy.FieldError has it: limits,
	// candidate, perKey
	name  string
	rows  []limitInput
	at    []int  // the row of each limit that was read
	wrong string // what is wrong with the list as a whole
}

func newLimitList(name string, limits []limiter.Limit) limitList {
	l := limitList{name: name}
	for _, limit := range limits {
		l.rows = append(l.rows, newLimitInput(limit))
	}
	return l
}

// required names the list that every form with one has, and that has at least one limit.
const required = "limits"

var errForeignForm = errors.New("not a form of this dashboard")

// readLimitList reads what a browser sent. It fails for a list that is not ours.
func readLimitList(values url.Values, name string) (limitList, error) {
	l := limitList{name: name}
	for i := 0; values.Has(l.field(i) + ".requests"); i++ {
		if i == limiter.MaxLimits {
			return limitList{}, errForeignForm
		}
		l.rows = append(l.rows, readLimitInput(values, l.field(i)+"."))
	}
	return l, nil
}

// field is the name of a row's fields up to the dot.
func (l *limitList) field(i int) string { return fmt.Sprintf("%s[%d]", l.name, i) }

// change does what one of the list's buttons says, add:NAME or remove:NAME:ROW, and
// reports whether it was one of them.
func (l *limitList) change(button string) bool {
	if button == "add:"+l.name {
		l.add()
		return true
	}
	row, ok := strings.CutPrefix(button, "remove:"+l.name+":")
	if i, err := strconv.Atoi(row); ok && err == nil && i >= 0 && i < len(l.rows) {
		l.rows = append(l.rows[:i], l.rows[i+1:]...)
	}
	return ok
}

// add appends a blank row.
func (l *limitList) add() {
	if len(l.rows) < limiter.MaxLimits {
		l.rows = append(l.rows, blankInput())
	}
}

func blankInput() limitInput {
	return limitInput{unit: input{text: "second"}, algorithm: input{text: limiter.Log.String()}}
}

// limits returns the limits that were typed. The list keeps what is wrong with them.
func (l *limitList) limits() []limiter.Limit {
	var limits []limiter.Limit
	l.at = nil
	for i := range l.rows {
		if row := &l.rows[i]; !row.blank() {
			limits, l.at = append(limits, row.limit()), append(l.at, i)
		}
	}
	return limits
}

// setError notes what the store found wrong and reports whether that is in this list, which
// the store knows as field.
func (l *limitList) setError(e policy.FieldError, field string) bool {
	if e.Field == field {
		l.wrong = sentence(e.Message)
		return true
	}
	for limit, row := range l.at {
		name, ok := strings.CutPrefix(e.Field, fmt.Sprintf("%s[%d].", field, limit))
		if in := l.rows[row].find(name); ok && in != nil {
			in.wrong = sentence(e.Message)
			return true
		}
	}
	return false
}

// errors counts the fields that are wrong.
func (l *limitList) errors() int {
	n := 0
	if l.wrong != "" {
		n++
	}
	for i := range l.rows {
		n += l.rows[i].errors()
	}
	return n
}

// view shows the list; one that is empty has a blank row to start with.
func (l *limitList) view(legend, advice string) templates.LimitList {
	rows := l.rows
	if len(rows) == 0 {
		rows = []limitInput{blankInput()}
	}
	v := templates.LimitList{Legend: legend, Advice: advice, ID: l.name, Error: l.wrong}
	if len(rows) < limiter.MaxLimits {
		v.Add = "add:" + l.name
	}
	for i, in := range rows {
		row := templates.LimitRow{
			Number:    strconv.Itoa(i + 1),
			Field:     l.field(i),
			ID:        l.name + "-" + strconv.Itoa(i),
			Requests:  field(in.requests),
			Window:    field(in.window),
			Unit:      field(in.unit),
			Algorithm: field(in.algorithm),
			More:      in.more(),
			Denied:    field(in.countDenied),
			Shared:    l.isShared(),
			Slots:     field(in.slots),
			Zone:      field(in.zone),
			Preview:   preview(in),
		}
		if len(rows) > 1 || l.name != required && !in.blank() {
			row.Remove = "remove:" + l.name + ":" + strconv.Itoa(i)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// isShared reports whether several callers share the limits of the list.
func (l *limitList) isShared() bool {
	return l.name == "perIP" || l.name == "shared" || l.name == "global"
}

func field(in input) templates.Field { return templates.Field{Value: in.text, Error: in.wrong} }

// preview reads a copy of the row, so that looking at it leaves no errors in the form.
func preview(in limitInput) string {
	if in.blank() {
		return ""
	}
	limit := in.limit()
	if in.errors() > 0 {
		return ""
	}
	return policydoc.Limit(limit)
}

// limitChoices are what the rows of every list offer.
func limitChoices() templates.LimitChoices {
	return templates.LimitChoices{
		Units: units(), Methods: methods(), Slots: number(limiter.DefaultSlots),
		Bounds: "Up to " + strconv.Itoa(limiter.MaxLimits) + " limits, each 1 to " + number(limiter.MaxRequests) +
			" calls in 1 millisecond to 366 days, or in a period of the calendar. A row with nothing filled in is left out.",
	}
}

// units lists the units of a window from the longest, then the periods of the calendar.
func units() []templates.Option {
	var all []templates.Option
	for _, u := range limiter.WindowUnits() {
		all = append(all, templates.Option{Value: u, Text: u + "s"})
	}
	for _, c := range calendars() {
		name := calendarPrefix + c.String()
		all = append(all, templates.Option{Value: name, Text: name})
	}
	return all
}

func methods() []templates.Option {
	names := map[limiter.Algorithm]string{
		limiter.Log:         "log: exact",
		limiter.Counter:     "counter: estimate, least memory",
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
