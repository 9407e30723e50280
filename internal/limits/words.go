package limits

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

// Words of a limit.
const (
	noLimitWords     = "no limit"
	countDeniedWords = "denied calls count"
	notifyWord       = "notify at "
	shadowWord       = "shadow"
	togetherWord     = "together"
	onWord           = "on "
	exceptWord       = "except "
	eachWord         = "each "
	utc              = "UTC"
)

const advice = `write a limit as "100 per 10 seconds", "500 calls per minute, each address" or ` +
	`"1,000 per calendar month (Europe/Berlin)"`

// String returns the limit in words: "30 calls per minute, on search, each caller". Parse
// is its inverse. Two limits with the same words are the same limit.
func (l Limit) String() string {
	return strings.Join(append([]string{l.Rate()}, l.Marks()...), ", ")
}

// Rate returns how many and per what time: "1,000 per 10 minutes", "500 calls per minute",
// "1,000 per calendar month (Europe/Berlin)", "no limit".
func (l Limit) Rate() string {
	unit := ""
	if l.Unit != Cost {
		unit = " " + l.Unit
	}
	switch {
	case l.Lifted:
		return noLimitWords + unit
	case l.Calendar != calendar.None && l.Zone != "":
		return Number(l.Requests) + unit + " per calendar " + l.Calendar.String() + " (" + l.Zone + ")"
	case l.Calendar != calendar.None:
		return Number(l.Requests) + unit + " per calendar " + l.Calendar.String()
	}
	return Number(l.Requests) + unit + " per " + strings.TrimPrefix(FormatWindow(l.Window), "1 ")
}

// Marks returns the words after the rate, in their usual order.
func (l Limit) Marks() []string {
	var marks []string
	add := func(mark string) {
		if mark != "" {
			marks = append(marks, mark)
		}
	}
	if l.On != "" {
		add(onWord + l.On)
	}
	for _, text := range l.Except {
		add(exceptWord + text)
	}
	add(l.who())
	if l.Algorithm != limiter.Log && l.Calendar == calendar.None ||
		l.Calendar != calendar.None && l.Algorithm != limiter.FixedWindow {
		add(Algorithm(l.Algorithm))
	}
	if l.CountDenied {
		add(countDeniedWords)
	}
	if len(l.Notify) > 0 {
		add(notifyWord + percents(l.Notify))
	}
	if l.Shadow {
		add(shadowWord)
	}
	return marks
}

func percents(list []int) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = strconv.Itoa(p)
	}
	return strings.Join(words, "/") + " %"
}

// algorithms has the words of each algorithm, by its number.
var algorithms = [...]string{limiter.Log: "exact", limiter.Counter: "counter",
	limiter.TokenBucket: "token bucket", limiter.FixedWindow: "fixed window"}

// Algorithm returns the words of an algorithm.
func Algorithm(a limiter.Algorithm) string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return a.String()
}

func algorithmWords() string { return strings.Join(algorithms[:], ", ") }

// number matches digits in groups of three, or without separators.
const number = `[0-9][0-9,_]*(?: [0-9]{3})*`

var (
	ratePattern = regexp.MustCompile(`(?i)^(` + number + `)(k|m)?(?: ?([a-z][a-z0-9._-]*))??` +
		`(?: ?/ ?(?:an? )?| (?:per|an?|every) )` +
		`(?:calendar ([a-z]+)(?: ?\(([a-z0-9_+/-]+)\))?|(?:(` + number + `) ?)?([a-z]+))$`)
	numberPattern   = regexp.MustCompile(`^(?:[0-9]+|[0-9]{1,3}(?:[,_ ][0-9]{3})+)$`)
	noLimitPattern  = regexp.MustCompile(`(?i)^no limit(?: ([a-z][a-z0-9._-]*))?$`)
	markInsideRate  = regexp.MustCompile(`(?i)^(.*[a-z0-9)]) ((?:on|except|each|together|shadow|notify at|denied calls) ?.*)$`)
	percentsPattern = regexp.MustCompile(`^[0-9]+ ?%?$`)
	notYetPattern   = regexp.MustCompile(`(?i)\bat once\b|\bbilling month\b`)
)

// Parse parses a limit in words. It accepts the usual abbreviations ("5 calls/second",
// "per 15 min"), any case of the language's own words, and any number of spaces. It checks
// the form; Limit.Errors checks bounds.
func Parse(text string) (Limit, error) {
	text = strings.Join(strings.Fields(text), " ")
	if word := notYetPattern.FindString(text); word != "" {
		return Limit{}, fmt.Errorf("%q is not possible yet: leave this limit out", strings.ToLower(word))
	}
	parts := splitMarks(text)
	l, err := parseRate(parts[0])
	if err != nil {
		return Limit{}, err
	}
	seen := map[string]bool{}
	for i, mark := range parts[1:] {
		kind, err := l.parseMark(mark, i == len(parts)-2)
		if err != nil {
			return Limit{}, err
		}
		if seen[kind] {
			return Limit{}, fmt.Errorf("%.60q is a second %q: a limit has one", mark, kind)
		}
		seen[kind] = kind != exceptWord
	}
	slices.Sort(l.Except)
	return l, nil
}

// splitMarks splits a limit at its commas, except those between two digits and those
// between two percentages.
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
	parts = append(parts, strings.TrimSpace(text[from:]))
	for i := 1; i < len(parts); i++ {
		if hasPrefix(parts[i-1], notifyWord) && percentsPattern.MatchString(parts[i]) {
			parts[i-1] += "/" + parts[i]
			parts = slices.Delete(parts, i, i+1)
			i--
		}
	}
	return parts
}

func hasPrefix(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

func parseRate(text string) (l Limit, err error) {
	if m := noLimitPattern.FindStringSubmatch(text); m != nil {
		l.Lifted = true
		l.Unit, err = parseUnit(m[1], "no limit")
		return l, err
	}
	m := ratePattern.FindStringSubmatch(text)
	if m == nil {
		return l, rateProblem(text)
	}
	if l.Requests, err = parseNumber(m[1]); err != nil {
		return l, err
	}
	if m[2] != "" {
		return l, fmt.Errorf("%.40q is not a whole number: write %s", m[1]+m[2], m[1]+",000"+
			strings.Repeat(",000", strings.Count(strings.ToLower(m[2]), "m")))
	}
	window, err := parseWindowWords(&l, m[4], m[5], m[6], m[7])
	if err != nil {
		return l, err
	}
	l.Unit, err = parseUnit(m[3], Number(l.Requests)+" per "+window)
	return l, err
}

// rateProblem says why a text is not a rate.
func rateProblem(text string) error {
	if m := markInsideRate.FindStringSubmatch(text); m != nil {
		if _, err := parseRate(m[1]); err == nil {
			return fmt.Errorf("a comma is missing before %q: write %q", m[2], m[1]+", "+m[2])
		}
	}
	if _, err := new(Limit).parseMark(text, false); err == nil {
		return fmt.Errorf("%.80q is a mark of a limit: put a limit with a comma in quotes", text)
	}
	return fmt.Errorf("%.80q is not a limit: %s", text, advice)
}

// parseUnit parses the word between the number and the window. rest is the limit without
// it.
func parseUnit(word, rest string) (string, error) {
	switch strings.ToLower(word) {
	case "":
		return Cost, nil
	case "call", "calls":
		return Calls, nil
	}
	if requestWords[strings.ToLower(word)] {
		number, window, _ := strings.Cut(rest, " ")
		return "", fmt.Errorf("counts %q: write %q, which counts each call as 1, or %q, which counts its cost",
			word, number+" calls "+window, rest)
	}
	if problem := unitProblem(word); problem != "" {
		return "", fmt.Errorf("the unit %s", problem)
	}
	return word, nil
}

var requestWords = map[string]bool{"request": true, "requests": true, "req": true, "reqs": true, "r": true}

// parseWindowWords sets the window of l, or its calendar period, and returns it in words.
func parseWindowWords(l *Limit, period, zone, count, unit string) (words string, err error) {
	if period != "" {
		if l.Zone = zone; strings.EqualFold(zone, utc) {
			l.Zone = ""
		}
		l.Algorithm = limiter.FixedWindow
		l.Calendar, err = calendar.Parse(strings.ToLower(period))
		return "calendar " + period, err
	}
	n := int64(1)
	if count != "" {
		if n, err = parseNumber(count); err != nil {
			return "", err
		}
	}
	l.Window, err = joinWindow(n, strings.ToLower(unit))
	return strings.TrimPrefix(FormatWindow(l.Window), "1 "), err
}

// parseMark sets what a mark says, and returns its kind. last says that no mark follows.
func (l *Limit) parseMark(mark string, last bool) (kind string, err error) {
	switch {
	case mark == "" && last:
		return "", errors.New("ends with a comma: remove it, or put the whole limit in quotes")
	case mark == "":
		return "", errors.New("has two commas in a row: remove one")
	case hasPrefix(mark, onWord):
		l.On, err = parseOn(mark[len(onWord):])
		return onWord, err
	case hasPrefix(mark, exceptWord):
		text, err := parseOn(mark[len(exceptWord):])
		l.Except = append(l.Except, text)
		return exceptWord, err
	case strings.EqualFold(mark, togetherWord):
		l.Who = Together
		return eachWord, nil
	case hasPrefix(mark, eachWord):
		l.Who, l.Param, err = parseWho(mark[len(eachWord):])
		return eachWord, err
	case hasPrefix(mark, notifyWord):
		l.Notify, err = parsePercents(mark[len(notifyWord):])
		return strings.TrimSpace(notifyWord), err
	case strings.EqualFold(mark, countDeniedWords):
		l.CountDenied = true
		return countDeniedWords, nil
	case strings.EqualFold(mark, shadowWord):
		l.Shadow = true
		return shadowWord, nil
	}
	for a, words := range algorithms {
		if strings.EqualFold(mark, words) || strings.EqualFold(mark, limiter.Algorithm(a).String()) {
			l.Algorithm = limiter.Algorithm(a)
			return "algorithm", nil
		}
	}
	return "", markProblem(mark)
}

// markProblem says what to write instead of a mark that does not exist.
func markProblem(mark string) error {
	lower := strings.ToLower(mark)
	switch {
	case strings.HasPrefix(lower, "up to "):
		return fmt.Errorf("%.40q belongs to a limit at once, which is not possible yet: leave it out", mark)
	case strings.HasPrefix(lower, "per "), strings.HasPrefix(lower, "by "):
		return fmt.Errorf("%.40q is no mark: write each caller, each group, each address or each {parameter}",
			mark)
	case strings.HasSuffix(lower, " slots"):
		return fmt.Errorf("%.40q is gone: limits to 1,000 are exact; leave it out", mark)
	case lower == "leaky bucket":
		return fmt.Errorf("%.40q is counted as a token bucket: write token bucket", mark)
	case lower == "sliding window", lower == "sliding log", lower == "sliding-window":
		return fmt.Errorf("%.40q is what a limit is without a mark: leave it out", mark)
	case ratePattern.MatchString(mark):
		return fmt.Errorf("%.40q is another limit: write two limits", mark)
	case targetPattern.MatchString(mark) || strings.Contains(mark, "/"):
		return fmt.Errorf("%.40q is no mark. One limit is on one route: give a route both patterns, or "+
			"write two limits", mark)
	}
	return fmt.Errorf("%.40q is no mark: a limit has on, except, each, together, %s, %s, notify at or %s",
		mark, algorithmWords(), countDeniedWords, shadowWord)
}

func parseWho(text string) (who Who, param string, err error) {
	lower := strings.ToLower(text)
	switch lower {
	case "caller":
		return EachCaller, "", nil
	case "group":
		return EachGroup, "", nil
	case "address":
		return EachAddress, "", nil
	case "caller and pattern":
		return CallerPattern, "", nil
	case "key", "user", "client", "token", "customer":
		return 0, "", fmt.Errorf("each %s: write each caller, or each group for a customer with several keys", lower)
	case "ip":
		return 0, "", errors.New("each ip: write each address")
	case "pattern", "route", "method":
		return 0, "", fmt.Errorf("each %s: write each caller and pattern", lower)
	case "caller and address":
		return 0, "", errors.New("each caller and address: write two limits, one for each caller and one for each address")
	}
	who, rest := EachParam, text
	if strings.HasPrefix(lower, "caller and ") {
		who, rest = CallerParam, text[len("caller and "):]
	}
	name, braced := strings.CutPrefix(rest, "{")
	name, closed := strings.CutSuffix(name, "}")
	switch {
	case !braced || !closed:
		return 0, "", fmt.Errorf("each %.40s: write each caller, group, address, {parameter}, caller and "+
			"{parameter}, or caller and pattern", text)
	case strings.HasSuffix(name, "+"):
		return 0, "", fmt.Errorf("each {%.40s}: only a parameter of one segment, {%.40s}, can be counted apart",
			name, strings.TrimSuffix(name, "+"))
	case !paramPattern.MatchString(name):
		return 0, "", fmt.Errorf("each {%.40s}: a parameter's name has letters, digits, . - _ and $", name)
	}
	return who, name, nil
}

var paramPattern = regexp.MustCompile(`^[A-Za-z0-9._$-]+$`)

func parsePercents(text string) ([]int, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("/, %", r) })
	var all []int
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("notify at %.40q is not a list of percentages, such as 80/100 %%", text)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, errors.New("notify at has no percentages: write notify at 80/100 %")
	}
	return all, nil
}

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

// parseNumber parses digits, with or without separators of thousands.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "", " ", "").Replace(text), 10, 64)
	if err != nil || !numberPattern.MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a whole number, such as 100 or 1,000", text)
	}
	return n, nil
}

// windowUnits are the units of a window, longest first.
var windowUnits = []struct {
	name, short string
	size        time.Duration
}{
	{"day", "d", 24 * time.Hour}, {"hour", "h", time.Hour}, {"minute", "m", time.Minute},
	{"second", "s", time.Second}, {"millisecond", "ms", time.Millisecond},
}

// otherUnits has abbreviations that people write.
var otherUnits = map[string]string{"sec": "second", "secs": "second", "min": "minute", "mins": "minute",
	"hr": "hour", "hrs": "hour"}

// longUnits has the days of periods that only a calendar has exactly.
var longUnits = map[string]int64{"week": 7, "month": 30, "year": 365}

// joinWindow returns a window of count units.
func joinWindow(count int64, unit string) (time.Duration, error) {
	long := strings.TrimSuffix(unit, "s")
	days, found := longUnits[long]
	switch {
	case found && count == 1:
		return 0, fmt.Errorf(`"per %s" has two meanings: write "per calendar %s" or "per %d days"`,
			long, long, days)
	case found:
		return 0, fmt.Errorf(`unit %q is only for calendars: write days, such as "per %d days"`,
			long, min(count, 52)*days)
	}
	if name, known := otherUnits[unit]; known {
		unit = name
	}
	for _, u := range windowUnits {
		if unit != u.name && unit != u.name+"s" && unit != u.short {
			continue
		}
		if count < 1 || count > int64(MaxWindow/u.size) {
			return 0, fmt.Errorf("window is %d %ss: must be 1 millisecond to 366 days", count, u.name)
		}
		return time.Duration(count) * u.size, nil
	}
	return 0, fmt.Errorf("%.40q is not a time: write seconds, minutes, hours or days", unit)
}

// FormatWindow returns a window in words: "10 seconds", "1 hour".
func FormatWindow(w time.Duration) string {
	for _, u := range windowUnits {
		switch {
		case w == u.size:
			return "1 " + u.name
		case w > u.size && w%u.size == 0:
			return Number(int64(w/u.size)) + " " + u.name + "s"
		}
	}
	return w.String()
}

// ShortWindow formats a window as ParseWindow parses it: "10s", "1h", "30d".
func ShortWindow(w time.Duration) string {
	for _, u := range windowUnits {
		if w >= u.size && w%u.size == 0 {
			return strconv.FormatInt(int64(w/u.size), 10) + u.short
		}
	}
	return w.String()
}

// ParseWindow parses a whole number of days ("30d"), or any text that time.ParseDuration
// accepts ("10s", "1h30m").
func ParseWindow(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok && !strings.ContainsFunc(days, func(r rune) bool {
		return !unicode.IsDigit(r)
	}) {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 1 || n > int64(MaxWindow/(24*time.Hour)) {
			return 0, fmt.Errorf("is %.40q: days must be a whole number, 1d to 366d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	w, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("is %.40q: must be a number and ms, s, m, h or d, such as 10s", text)
	}
	return w, nil
}
