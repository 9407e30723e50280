package policydoc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// Number formats 1000000 as 1,000,000.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Rate formats the requests and the window of a limit: "1,000 per 10 minutes", "5 per
// second", "1,000 per calendar month (Europe/Berlin)", or "500 calls per minute" for a
// limit that counts calls.
func Rate(l limiter.Limit) string {
	most := Number(l.Requests)
	if l.Calls {
		most += callsMark
	}
	if l.Calendar == limiter.NoCalendar {
		return most + " per " + strings.TrimPrefix(limiter.FormatWindow(l.Window), "1 ")
	}
	return most + " per calendar " + l.Calendar.String() + " (" + cmp.Or(l.Zone, utc) + ")"
}

const (
	utc         = "UTC"
	callsMark   = " " + callsWord
	denialsMark = "denied calls count"
	slotsMark   = " slots"
	notifyMark  = "notify at "
	shadowMark  = "shadow"
)

// Marks returns the parts of LimitText after the rate: the algorithm unless it is exact,
// and the options.
func Marks(l limiter.Limit) []string {
	var marks []string
	if l.Algorithm != limiter.Log {
		marks = append(marks, Algorithm(l.Algorithm))
	}
	if l.CountDenied {
		marks = append(marks, denialsMark)
	}
	if l.Slots != 0 {
		marks = append(marks, Number(int64(l.Slots))+slotsMark)
	}
	if text := l.Notify.String(); text != "" {
		marks = append(marks, notifyMark+text)
	}
	if l.Shadow {
		marks = append(marks, shadowMark)
	}
	return marks
}

// Algorithm returns the display name of an algorithm.
func Algorithm(a limiter.Algorithm) string {
	switch a {
	case limiter.Log:
		return "exact"
	case limiter.TokenBucket:
		return "token bucket"
	case limiter.FixedWindow:
		return "fixed window"
	case limiter.Counter:
	}
	return a.String()
}

// LimitText formats a limit in full: "100 per 10 seconds, denied calls count".
func LimitText(l limiter.Limit) string {
	return strings.Join(append([]string{Rate(l)}, Marks(l)...), ", ")
}

// Each returns the LimitText of every limit.
func Each(limits []limiter.Limit) []string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = LimitText(l)
	}
	return words
}

// LimitsText formats a list of limits.
func LimitsText(limits []limiter.Limit) string { return strings.Join(Each(limits), "; ") }

var (
	ratePattern = regexp.MustCompile(
		`(?i)^([0-9][0-9,_]*(?: [0-9]{3})*) *(calls|requests?|reqs?|r)? *(?:/|(?:per|an?|every)\b) *` +
			`(?:calendar +([a-z]+)(?: *\(([A-Za-z0-9_+/-]+)\))?|(?:([0-9][0-9,_]*) *)?([a-z]+))$`)
	numberPattern = regexp.MustCompile(`^(?:[0-9]+|[0-9]{1,3}(?:[,_ ][0-9]{3})+)$`)
)

const (
	callsWord = "calls"

	advice = `write a limit as "100 per 10 seconds", "500 calls per minute", "5 per second, token bucket" ` +
		`or "1,000 per calendar month (Europe/Berlin)"`
)

// shortUnits has the unit of a window by its usual abbreviations.
var shortUnits = map[string]string{
	"ms": "millisecond", "s": "second", "sec": "second", "secs": "second", "m": "minute", "min": "minute",
	"mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "d": "day",
}

// longUnits has the days of periods that only a calendar has exactly.
var longUnits = map[string]int64{"week": 7, "month": 30, "year": 365}

// ParseLimit is the inverse of LimitText. It also accepts abbreviations such as 10r/s, and
// the names of algorithms in configuration. A calendar means a fixed window unless the
// text names an algorithm. ParseLimit checks no bounds; limiter.Limit.Validate does.
func ParseLimit(text string) (limiter.Limit, error) {
	parts := splitMarks(strings.Join(strings.Fields(text), " "))
	l, err := parseRate(parts[0])
	if err != nil {
		return limiter.Limit{}, err
	}
	if l.Calendar != limiter.NoCalendar {
		l.Algorithm = limiter.FixedWindow
	}
	for _, mark := range parts[1:] {
		if err := parseMark(&l, strings.ToLower(mark)); err != nil {
			return limiter.Limit{}, err
		}
	}
	return l, nil
}

// splitMarks splits a limit at its commas, except those between two digits.
func splitMarks(text string) []string {
	digit := func(at int) bool { return at >= 0 && at < len(text) && text[at] >= '0' && text[at] <= '9' }
	var parts []string
	from := 0
	for i := range len(text) {
		if text[i] == ',' && (!digit(i-1) || !digit(i+1)) {
			parts = append(parts, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

func parseRate(text string) (l limiter.Limit, err error) {
	m := ratePattern.FindStringSubmatch(text)
	if m == nil {
		if parseMark(&l, strings.ToLower(text)) == nil {
			return l, fmt.Errorf("%.80q is an option of a limit: put a limit with a comma in quotes", text)
		}
		return l, fmt.Errorf("%.80q is not a limit: %s", text, advice)
	}
	if l.Requests, err = parseNumber(m[1]); err != nil {
		return l, err
	}
	l.Calls = strings.EqualFold(m[2], callsWord)
	if m[3] != "" {
		if l.Zone = m[4]; l.Zone == utc {
			l.Zone = ""
		}
		l.Calendar, err = limiter.ParseCalendar(strings.ToLower(m[3]))
		return l, err
	}
	count := int64(1)
	if m[5] != "" {
		if count, err = parseNumber(m[5]); err != nil {
			return l, err
		}
	}
	l.Window, err = parseWindow(count, strings.ToLower(m[6]))
	return l, err
}

// parseWindow returns a window of count units.
func parseWindow(count int64, unit string) (time.Duration, error) {
	long := strings.TrimSuffix(unit, "s")
	days, found := longUnits[long]
	switch {
	case found && count == 1:
		return 0, fmt.Errorf(`"per %s" has two meanings: write "per calendar %s" or "per %d days"`,
			long, long, days)
	case found:
		return 0, fmt.Errorf(`unit %q is only for calendars: write days, such as "per %d days"`,
			long, min(count, 366)*days)
	}
	return limiter.JoinWindow(count, cmp.Or(shortUnits[unit], unit))
}

func parseMark(l *limiter.Limit, mark string) error {
	if mark == denialsMark {
		l.CountDenied = true
		return nil
	}
	if mark == shadowMark {
		l.Shadow = true
		return nil
	}
	if slots, ok := strings.CutSuffix(mark, slotsMark); ok {
		n, err := parseNumber(slots)
		l.Slots = int(n)
		return err
	}
	if percents, ok := strings.CutPrefix(mark, notifyMark); ok {
		read, err := ParsePercents(percents)
		l.Notify = limiter.NewThresholds(read)
		return err
	}
	for _, a := range limiter.Algorithms() {
		if mark == Algorithm(a) || mark == a.String() {
			l.Algorithm = a
			return nil
		}
	}
	return fmt.Errorf("%.40q is not an option of a limit: %s", mark, advice)
}

// ParsePercents parses thresholds such as "50/80/100 %". They may be separated by
// slashes, commas or spaces. It checks no bounds; limiter.Limit.Validate does.
func ParsePercents(text string) ([]int, error) {
	words := strings.FieldsFunc(strings.TrimSuffix(strings.TrimSpace(text), "%"), func(r rune) bool {
		return r == '/' || r == ',' || r == ' '
	})
	var all []int
	for _, word := range words {
		n, err := strconv.Atoi(strings.TrimSuffix(word, "%"))
		if err != nil {
			return nil, fmt.Errorf("%.40q is not a list of percentages, such as 80/100 %%", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// parseNumber parses digits, with or without separators of thousands.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "", " ", "").Replace(text), 10, 64)
	if err != nil || !numberPattern.MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a whole number, such as 100 or 1,000", text)
	}
	return n, nil
}

// MarshalYAML returns the limit's text, or its fields if the text would lose something.
func (l Limit) MarshalYAML() (any, error) {
	limit, _ := limiter.Text(l).Limit()
	words := LimitText(limit)
	if read, err := ParseLimit(words); err == nil && read == limit {
		return words, nil
	}
	return limiter.Text(l), nil
}

// UnmarshalYAML accepts both forms.
func (l *Limit) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := ParseLimit(node.Value)
		*l = LimitOf(read)
		return atLine(node, err)
	}
	return decodeStrictly(node, (*limiter.Text)(l))
}

// patternFields is a Pattern whose YAML form is a mapping.
type patternFields Pattern

// MarshalYAML returns the pattern as a route, or its fields if a route would lose
// something.
func (p Pattern) MarshalYAML() (any, error) {
	text := route.Pattern(p).String()
	if read, err := route.Parse(text); err == nil && read == route.Pattern(p) {
		return text, nil
	}
	return patternFields(p), nil
}

// UnmarshalYAML accepts both forms. It checks no bounds.
func (p *Pattern) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		read, err := route.Parse(node.Value)
		*p = Pattern(read)
		return atLine(node, err)
	}
	return decodeStrictly(node, (*patternFields)(p))
}

// atLine adds a node's line to an error. It returns a *yaml.TypeError, after which the
// library continues and finds further errors.
func atLine(node *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{
		fmt.Sprintf("line %d: %s", node.Line, strings.ReplaceAll(err.Error(), "\n", "; "))}}
}

// decodeStrictly decodes a node and refuses unknown fields, as a Decoder with KnownFields
// does. The library has no such option for nodes.
func decodeStrictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return atLine(node, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return atLine(node, errors.New(fromYAML(err).Problems[0].Message))
	}
	return nil
}
