package form

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// LimitList holds the typed rows of a list of limits.
type LimitList struct {
	Name  string // in the form and in a policy.FieldError, such as limits or perKey
	Rows  []LimitInput
	Error string // an error of the list as a whole
	rowOf []int  // the row of each limit that Limits returned
}

// NewLimitList returns a list filled with limits.
func NewLimitList(name string, limits []limiter.Limit) LimitList {
	l := LimitList{Name: name}
	for _, limit := range limits {
		l.Rows = append(l.Rows, newLimitInput(limit))
	}
	return l
}

// required is the name of the list that needs at least one limit.
const required = "limits"

// ReadLimitList reads the list that a browser sent. It returns ErrForeign if there are
// more rows than the form offers.
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

// field returns the prefix of a row's field names, without the dot.
func (l *LimitList) field(i int) string { return fmt.Sprintf("%s[%d]", l.Name, i) }

// Change adds or removes a row if the button is one of the list's, add:NAME or
// remove:NAME:ROW, and reports whether it is.
func (l *LimitList) Change(button string) bool {
	if button == "add:"+l.Name {
		if len(l.Rows) < limiter.MaxLimits {
			l.Rows = append(l.Rows, blankInput())
		}
		return true
	}
	row, ok := strings.CutPrefix(button, "remove:"+l.Name+":")
	if i, err := strconv.Atoi(row); ok && err == nil && i >= 0 && i < len(l.Rows) {
		l.Rows = slices.Delete(l.Rows, i, i+1)
	}
	return ok
}

func blankInput() LimitInput {
	return LimitInput{Unit: Input{Text: "second"}, Algorithm: Input{Text: limiter.Log.String()}}
}

// Limits returns the typed limits without blank rows. It sets the errors of invalid
// fields.
func (l *LimitList) Limits() []limiter.Limit {
	var limits []limiter.Limit
	l.rowOf = nil
	for i := range l.Rows {
		if row := &l.Rows[i]; !row.blank() {
			limits = append(limits, row.limit())
			l.rowOf = append(l.rowOf, i)
		}
	}
	return limits
}

// SetError sets a validation error of the store at its row if it belongs to this list,
// and reports whether it does. field is the store's name of the list. Call it after
// Limits.
func (l *LimitList) SetError(e policy.FieldError, field string) bool {
	if e.Field == field {
		l.Error = Sentence(e.Message)
		return true
	}
	for limit, row := range l.rowOf {
		name, ok := strings.CutPrefix(e.Field, fmt.Sprintf("%s[%d].", field, limit))
		if in := l.Rows[row].fields()[name]; ok && in != nil {
			in.Error = Sentence(e.Message)
			return true
		}
	}
	return false
}

// ErrorCount returns the number of errors.
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

// View returns the list for a page. An empty list has a blank row.
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
			Counts:    Field(in.counts),
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

// preview returns the row's limit as text; empty if it is blank or invalid. It reads a
// copy of the row, so that it sets no errors in the form.
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

// LimitChoices returns the options that the rows of all lists share.
func LimitChoices() templates.LimitChoices {
	return templates.LimitChoices{
		Units: units(), Methods: algorithms(), Modes: modes(), Counts: counts(),
		Slots: page.Number(limiter.DefaultSlots),
		Bounds: "Up to " + strconv.Itoa(limiter.MaxLimits) + " limits, each of 1 to " +
			page.Number(limiter.MaxRequests) +
			" requests per 1 millisecond to 366 days, or per calendar period. Empty rows are ignored.",
	}
}

// units returns the units of a window, longest first, then the calendar periods.
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

// counts returns what a limit can count.
func counts() []templates.Option {
	return []templates.Option{
		{Value: countsCost, Text: "cost"},
		{Value: countsCalls, Text: "calls, whatever they cost", Mark: " calls"},
	}
}

// modes returns the modes of a limit.
func modes() []templates.Option {
	return []templates.Option{
		{Value: string(policy.Enforce), Text: "enforce"},
		{Value: string(policy.Shadow), Text: "shadow: count, never deny", Mark: string(policy.Shadow)},
	}
}

func algorithms() []templates.Option {
	names := map[limiter.Algorithm]string{
		limiter.Log:         "log: exact",
		limiter.Counter:     "counter: approximate, least memory",
		limiter.TokenBucket: "token bucket: a burst, then an even rate",
		limiter.FixedWindow: "fixed window: up to twice the limit at a boundary",
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
