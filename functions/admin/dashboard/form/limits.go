package form

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// perLimit is how many characters of a form's list each of its limits may have, on average.
const perLimit = 250

// MaxLimitsText is the maximum size of the limits of a policy in characters.
const MaxLimitsText = limits.MaxPolicyLimits * perLimit

// Limits is a list of limits in words, one a line. Its Error is that of the whole list.
type Limits struct {
	Input

	Most  int // limits
	lines []limitLine
}

// limitLine is a line that is not blank.
type limitLine struct {
	text, problem string
	limit         limits.Limit
}

// Set fills the list with limits.
func (l *Limits) Set(list []limits.Limit) {
	l.Input = Input{Text: strings.Join(policydoc.Each(list), "\n")}
	l.List()
}

func (l *Limits) maxText() int { return l.Most * perLimit }

// read reads the list that a browser sent.
func (l *Limits) read(values url.Values, name string) {
	l.Input = Typed(values, name, l.maxText()+1)
	if len(l.Text) > l.maxText() && len([]rune(l.Text)) > l.maxText() {
		l.Error = "Enter at most " + page.Number(int64(l.maxText())) + " characters."
	}
	l.List()
}

// List returns the typed limits. Each line keeps its error.
func (l *Limits) List() []limits.Limit {
	var all []limits.Limit
	l.lines = nil
	for text := range strings.Lines(l.Text) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		limit, problem := parseLimit(text)
		all = append(all, limit)
		l.lines = append(l.lines, limitLine{text, problem, limit})
	}
	return all
}

// parseLimit returns a typed limit, or how to correct it.
func parseLimit(text string) (l limits.Limit, problem string) {
	l, err := limits.Parse(text)
	if err != nil {
		return l, Sentence(err.Error())
	}
	if errs := l.Errors(); len(errs) > 0 {
		return l, Sentence(errs[0].Error())
	}
	return l, ""
}

// setError sets an error of a validation at the list or at one of its limits, and reports
// whether it belongs there. at is the path of the list. Call it after List.
func (l *Limits) setError(e policy.FieldError, at string) bool {
	if e.Field == at {
		l.Error = Sentence(e.Message)
		return true
	}
	for i := range l.lines {
		field, found := strings.CutPrefix(e.Field, fmt.Sprintf("%s[%d]", at, i))
		if found {
			l.lines[i].problem = Sentence(strings.TrimPrefix(field+" "+e.Message, "."))
			return true
		}
	}
	return false
}

func (l *Limits) errorCount() int {
	n := CountErrors(l.Input)
	for _, line := range l.lines {
		n += CountErrors(Input{Error: line.problem})
	}
	return n
}

// LimitsField returns the field for a list of limits. It says what each line does, or what
// is wrong with it.
func LimitsField(hint string, l Limits) templates.FormField {
	f := templates.FormField{ID: "limits", Label: "Limits, one a line", Kind: templates.AreaField, Hint: hint,
		Sample: "100 per 10 seconds", Max: strconv.Itoa(l.maxText()), Rows: strconv.Itoa(len(l.lines) + 2),
		Field: Field(l.Input), Samples: limitSamples}
	for _, line := range l.lines {
		shown := templates.Line{Text: line.text, Error: line.problem}
		if line.problem == "" {
			shown.Meaning = policydoc.Meaning(line.limit)
		}
		f.Lines = append(f.Lines, shown)
	}
	return f
}

// limitSamples has limits in words, each with its meaning.
var limitSamples = []templates.Line{
	{Text: "100 per 10 seconds", Meaning: "How much, and per what time. Exact: in any 10 seconds."},
	{Text: "10,000 per calendar month (Europe/Berlin)", Meaning: "By the clock of a time zone, or UTC."},
	{Text: "500 calls per minute", Meaning: "Counts calls. Without a unit it counts what calls cost."},
	{Text: "8,000 output per minute", Meaning: "Counts a unit that a route's cost names."},
	{Text: "20 at once, up to 5 minutes", Meaning: "Calls at the same time; a settlement ends one."},
	{Text: "20 per minute, on search", Meaning: "Only calls of a route; except search leaves them out."},
	{Text: "600 per minute, each address",
		Meaning: "For each caller, group, address or {parameter}; or together."},
	{Text: "5 per second, on rooms, each caller and {room}", Meaning: "A count for each value in the path."},
	{Text: "5 per second, token bucket",
		Meaning: "Another algorithm: token bucket, counter or fixed window."},
	{Text: "1,000 per hour, notify at 80/100 %", Meaning: "Alerts when that much is used."},
	{Text: "20 per minute, denied calls count", Meaning: "Denied calls count too."},
	{Text: "100 per minute, shadow", Meaning: "Counts only, and denies nothing."},
}
