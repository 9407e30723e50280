package dashboard

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// limitsForm is an edit as it was typed.
type limitsForm struct {
	version int64 // of the key that the edit is based on
	rows    []limitInput
	wrong   string // what is wrong with the limits as a whole
}

// limitInput is one row of the form. A row without numbers is blank and means nothing.
type limitInput struct {
	requests, window, unit, algorithm input
}

// input is a field's text and what is wrong with it.
type input struct{ text, wrong string }

// maxInput is more than any number needs, and bounds what is sent back.
const maxInput = 40

var (
	ungrouped = regexp.MustCompile(`^[0-9]+$`)
	grouped   = regexp.MustCompile(`^[0-9]{1,3}([,_ \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)
)

func newLimitsForm(k policy.Key) limitsForm {
	f := limitsForm{version: k.Version}
	for _, l := range k.Limits {
		count, unit := limiter.SplitWindow(l.Window)
		f.rows = append(f.rows, limitInput{
			requests:  input{text: number(l.Requests)},
			window:    input{text: number(count)},
			unit:      input{text: unit},
			algorithm: input{text: l.Algorithm.String()},
		})
	}
	return f
}

// readLimitsForm reads what a browser sent. It fails for a form that is not ours.
func readLimitsForm(values url.Values) (limitsForm, error) {
	version, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil {
		return limitsForm{}, fmt.Errorf("version: %w", err)
	}
	f := limitsForm{version: version}
	for i := 0; values.Has(rowField(i) + ".requests"); i++ {
		if i == limiter.MaxLimits {
			return limitsForm{}, errors.New("more limits than the form offers")
		}
		read := func(name string) input { return input{text: clip(values.Get(rowField(i)+"."+name), maxInput)} }
		f.rows = append(f.rows, limitInput{
			requests: read("requests"), window: read("window"), unit: read("unit"), algorithm: read("algorithm"),
		})
	}
	return f, nil
}

// rowField is the name of a row's fields up to the dot, the same that policy.FieldError uses.
func rowField(i int) string { return fmt.Sprintf("limits[%d]", i) }

// add appends a blank row.
func (f *limitsForm) add() {
	if len(f.rows) < limiter.MaxLimits {
		f.rows = append(f.rows, limitInput{unit: input{text: "second"}, algorithm: input{text: limiter.Log.String()}})
	}
}

// remove takes away the row with this index, if there is one.
func (f *limitsForm) remove(index string) {
	if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(f.rows) {
		f.rows = append(f.rows[:i], f.rows[i+1:]...)
	}
}

// limits returns the limits that were typed, and the row of each. The form keeps what is wrong with them.
func (f *limitsForm) limits() (limits []limiter.Limit, rows []int) {
	for i := range f.rows {
		if row := &f.rows[i]; !row.blank() {
			limits, rows = append(limits, row.limit()), append(rows, i)
		}
	}
	if len(limits) == 0 {
		f.wrong = "A key needs at least one limit."
	}
	return limits, rows
}

// blame notes what the store found wrong. rows holds the row of each limit that it was given.
func (f *limitsForm) blame(invalid *policy.InvalidError, rows []int) {
	for _, e := range invalid.Fields {
		if in := f.find(e.Field, rows); in != nil {
			in.wrong = sentence(e.Message)
		} else {
			f.wrong = sentence(e.Message)
		}
	}
}

func (f *limitsForm) find(field string, rows []int) *input {
	for limit, row := range rows {
		if name, ok := strings.CutPrefix(field, rowField(limit)+"."); ok {
			return f.rows[row].find(name)
		}
	}
	return nil
}

// errors counts the fields that are wrong.
func (f *limitsForm) errors() int {
	n := 0
	for i := range f.rows {
		n += f.rows[i].errors()
	}
	return n
}

func (f *limitsForm) valid() bool { return f.wrong == "" && f.errors() == 0 }

func (l *limitInput) errors() int {
	n := 0
	for _, in := range []input{l.requests, l.window, l.unit, l.algorithm} {
		if in.wrong != "" {
			n++
		}
	}
	return n
}

func (l *limitInput) find(name string) *input {
	switch name {
	case "requests":
		return &l.requests
	case "window":
		return &l.window
	case "algorithm":
		return &l.algorithm
	}
	return nil
}

func (l *limitInput) blank() bool {
	return strings.TrimSpace(l.requests.text) == "" && strings.TrimSpace(l.window.text) == ""
}

// limit reads the row and notes what is wrong with it.
func (l *limitInput) limit() limiter.Limit {
	limit := limiter.Limit{Requests: l.requests.whole("Type how many calls are allowed.", limiter.MaxRequests)}
	if count := l.window.whole("Type how long the window is.", int64(limiter.MaxWindow/limiter.MinWindow)); l.window.wrong == "" {
		limit.Window = l.joinWindow(count)
	}
	algorithm, err := limiter.ParseAlgorithm(l.algorithm.text)
	if err != nil {
		l.algorithm.wrong = "Choose one from the list."
	}
	limit.Algorithm = algorithm
	if l.errors() == 0 {
		l.bound(limit)
	}
	return limit
}

// bound notes which bounds a limit breaks whose fields are fine one by one.
func (l *limitInput) bound(limit limiter.Limit) {
	for _, e := range limit.Errors() {
		if in := l.find(e.Field); in != nil {
			in.wrong = sentence(e.Message)
		}
	}
}

func (l *limitInput) joinWindow(count int64) time.Duration {
	window, err := limiter.JoinWindow(count, l.unit.text)
	switch {
	case err == nil:
	case unknownUnit(l.unit.text):
		l.unit.wrong = "Choose one from the list."
	default:
		l.window.wrong = "The window must be 1 millisecond to 366 days."
	}
	return window
}

// whole returns the number that was typed, 1 to most, and notes if it is none.
func (in *input) whole(missing string, most int64) int64 {
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
	if err != nil || n < 1 || n > most {
		in.wrong = "Must be 1 to " + number(most) + "."
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
