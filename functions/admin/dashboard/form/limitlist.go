package form

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// MaxLimitText exceeds the longest text of a limit, in characters.
const MaxLimitText = 200

// LimitList holds the typed limits of a list, in the notation of policy files. A blank one
// is no limit.
type LimitList struct {
	Name  string // in the form and in a policy.FieldError, such as limits or perKey
	Rows  []Input
	Error string // an error of the list as a whole
	rowOf []int  // the row of each limit that Limits returned
}

// NewLimitList returns a list filled with limits.
func NewLimitList(name string, limits []limiter.Limit) LimitList {
	l := LimitList{Name: name}
	for _, limit := range limits {
		l.Rows = append(l.Rows, Input{Text: policydoc.LimitText(limit)})
	}
	return l
}

// ReadLimitList reads the list that a browser sent. It returns ErrForeign if there are
// more limits than the form offers.
func ReadLimitList(values url.Values, name string) (LimitList, error) {
	l := LimitList{Name: name}
	for i := 0; values.Has(l.field(i)); i++ {
		if i == limiter.MaxLimits {
			return LimitList{}, ErrForeign
		}
		l.Rows = append(l.Rows, Typed(values, l.field(i), MaxLimitText+1))
	}
	return l, nil
}

// field returns the name of a limit's field.
func (l *LimitList) field(i int) string { return fmt.Sprintf("%s[%d]", l.Name, i) }

// Change adds a blank limit if the button is add:NAME, and reports whether it is.
func (l *LimitList) Change(button string) bool {
	if button != "add:"+l.Name {
		return false
	}
	if len(l.Rows) < limiter.MaxLimits {
		l.Rows = append(l.Rows, Input{})
	}
	return true
}

// Limits returns the typed limits without blank ones. It sets the errors of invalid ones.
func (l *LimitList) Limits() []limiter.Limit {
	var limits []limiter.Limit
	l.rowOf = nil
	for i := range l.Rows {
		row := &l.Rows[i]
		if strings.TrimSpace(row.Text) == "" {
			continue
		}
		limits, l.rowOf = append(limits, row.Limit()), append(l.rowOf, i)
	}
	return limits
}

// parseLimit returns a typed limit, or how to correct it.
func parseLimit(text string) (l limiter.Limit, problem string) {
	if len([]rune(text)) > MaxLimitText {
		return l, "Use at most " + strconv.Itoa(MaxLimitText) + " characters."
	}
	l, err := policydoc.ParseLimit(text)
	if err != nil {
		return l, Sentence(err.Error())
	}
	if errs := l.Errors(); len(errs) > 0 {
		return l, advice(errs[0].Field, errs[0].Message)
	}
	return l, ""
}

// Limit returns the typed limit. It sets an error if it is missing or invalid.
func (in *Input) Limit() (l limiter.Limit) {
	l, in.Error = parseLimit(in.Text)
	return l
}

// fieldNames names the fields of a limit as its notation has them.
var fieldNames = map[string]string{
	"requests": "the number of calls", "window": "the window", "algorithm": "the algorithm",
	"countDenied": "the option “denied calls count”", "slots": "the number of slots",
	"calendar": "the calendar", "zone": "the time zone", "mode": "the mode",
	"notify": "the option “notify at”",
}

// advice returns the error of a field of a limit.
func advice(field, message string) string {
	if name, known := fieldNames[field]; known {
		return Sentence(name + " " + message)
	}
	return Sentence(message)
}

// SetError sets a validation error of the store at its limit if it belongs to this list,
// and reports whether it does. field is the store's name of the list. Call it after
// Limits.
func (l *LimitList) SetError(e policy.FieldError, field string) bool {
	if e.Field == field {
		l.Error = Sentence(e.Message)
		return true
	}
	for limit, row := range l.rowOf {
		if name, ok := strings.CutPrefix(e.Field, fmt.Sprintf("%s[%d].", field, limit)); ok {
			l.Rows[row].Error = advice(name, e.Message)
			return true
		}
	}
	return false
}

// ErrorCount returns the number of errors.
func (l *LimitList) ErrorCount() int {
	n := CountErrors(l.Rows...)
	if l.Error != "" {
		n++
	}
	return n
}

// View returns the list for a page. An empty list has a blank limit.
func (l *LimitList) View(legend, advice string) templates.LimitList {
	rows := l.Rows
	if len(rows) == 0 {
		rows = []Input{{}}
	}
	v := templates.LimitList{Legend: legend, Advice: advice, ID: l.Name, Error: l.Error,
		Most: strconv.Itoa(limiter.MaxLimits)}
	if len(rows) < limiter.MaxLimits {
		v.Add = "add:" + l.Name
	}
	for i, in := range rows {
		v.Rows = append(v.Rows, templates.LimitRow{
			Number: strconv.Itoa(i + 1), Name: l.field(i), ID: l.Name + "-" + strconv.Itoa(i),
			Max: strconv.Itoa(MaxLimitText), Field: Field(in), Meaning: meaning(in.Text),
		})
	}
	return v
}

// Rare returns a list that is folded while it is empty.
func Rare(l templates.LimitList) templates.LimitList {
	l.Rare = true
	return l
}

// meaning returns what a typed limit does; empty if it is blank or invalid.
func meaning(text string) string {
	limit, problem := parseLimit(text)
	if problem != "" {
		return ""
	}
	return policydoc.Meaning(limit)
}

// LimitSamples returns limits in the notation, each with its meaning.
func LimitSamples() []templates.LimitSample {
	texts := []string{
		"100 per 10 seconds", "5 per second, token bucket", "1,000 per minute, counter",
		"10,000 per calendar month (Europe/Berlin)", "500 calls per minute", "100 per minute, shadow",
		"1,000 per hour, notify at 80/100 %", "20 per minute, denied calls count",
		"1,000,000 per day, 1,000 slots",
	}
	samples := make([]templates.LimitSample, len(texts))
	for i, text := range texts {
		samples[i] = templates.LimitSample{Text: text, Meaning: meaning(text)}
	}
	return samples
}
