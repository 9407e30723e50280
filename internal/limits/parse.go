package limits

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
)

const advice = `write a limit as "100 per 10 seconds", "500 calls per minute, each address" or ` +
	`"1,000 per calendar month (Europe/Berlin)"`

// pattern compiles a regular expression when it is first used: checks use none.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var (
	ratePattern = pattern(`(?i)^(` + number + `)(k|m)?(?: ?([a-z][a-z0-9._-]*))??` +
		`(?: ?/ ?(?:an? )?| (?:per|an?|every) )` +
		`(?:(?:calendar ([a-z]+)|(billing month))(?: ?\(([a-z0-9_+/-]+)\))?|(?:(` + number + `) ?)?([a-z]+))$`)
	noLimitPattern  = pattern(`(?i)^no limit(?: ([a-z][a-z0-9._-]*))?$`)
	markInsideRate  = pattern(`(?i)^(.*[a-z0-9)]) ((?:on|except|each|together|shadow|notify at|denied calls) ?.*)$`)
	startOfNumber   = pattern(`^[0-9]{1,3}$`)
	percentsPattern = pattern(`^[0-9]+ ?%?$`)
	atOncePattern   = pattern(`(?i)^(?:(` + number + `)(k|m)?(?: ?([a-z][a-z0-9._-]*))??|no limit) at once$`)
	upToPattern     = pattern(`(?i)^(?:(` + number + `) ?)?([a-z]+)$`)
)

// Parse parses a limit in words. It accepts the usual abbreviations ("5 calls/second",
// "per 15 min"), any case of the language's own words, and any number of spaces. It checks
// the form; Limit.Errors checks bounds.
func Parse(text string) (Limit, error) {
	text = strings.Join(strings.Fields(text), " ")
	parts := splitMarks(text)
	l, err := parseRate(parts[0])
	if err != nil {
		return Limit{}, err
	}
	seen := map[string]bool{}
	for i, mark := range parts[1:] {
		kind, err := parseMark(&l, mark, i == len(parts)-2)
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
		if hasPrefix(parts[i-1], notifyWord) && percentsPattern().MatchString(parts[i]) {
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
	if m := noLimitPattern().FindStringSubmatch(text); m != nil {
		l.Lifted = true
		l.Unit, err = parseUnit(m[1], "no limit")
		return l, err
	}
	if m := atOncePattern().FindStringSubmatch(text); m != nil {
		return parseAtOnce(m)
	}
	m := ratePattern().FindStringSubmatch(text)
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
	window, err := parseWindowWords(&l, m[4]+m[5], m[6], m[7], m[8])
	if err != nil {
		return l, err
	}
	l.Unit, err = parseUnit(m[3], Number(l.Requests)+" per "+window)
	return l, err
}

// parseAtOnce parses the groups of atOncePattern.
func parseAtOnce(m []string) (l Limit, err error) {
	l = Limit{AtOnce: true, Unit: Calls, Window: DefaultUpTo}
	if m[1] == "" {
		l.Lifted, l.Window = true, 0
		return l, nil
	}
	if l.Requests, err = parseNumber(m[1]); err != nil {
		return l, err
	}
	switch {
	case m[2] != "":
		return l, fmt.Errorf("%.40q is not a whole number: write it in digits", m[1]+m[2])
	case m[3] != "" && !strings.EqualFold(m[3], "call") && !strings.EqualFold(m[3], Calls):
		return l, fmt.Errorf("%q counts calls, so leave out %.40q", Number(l.Requests)+atOnceWords, m[3])
	}
	return l, nil
}

// parseUpTo parses how long a call at once counts that nobody ends.
func parseUpTo(l *Limit, text string) error {
	m := upToPattern().FindStringSubmatch(strings.TrimSpace(text))
	if !l.AtOnce || l.Lifted {
		return fmt.Errorf("%.40q belongs to a limit at once, such as 20 at once, up to 5 minutes",
			upToWord+text)
	}
	if m == nil {
		return fmt.Errorf("%.40q is not a time: write one such as up to 5 minutes", upToWord+text)
	}
	n := int64(1)
	var err error
	if m[1] != "" {
		if n, err = parseNumber(m[1]); err != nil {
			return err
		}
	}
	l.Window, err = joinWindow(n, strings.ToLower(m[2]))
	return err
}

// rateProblem says why a text is not a rate.
func rateProblem(text string) error {
	if m := markInsideRate().FindStringSubmatch(text); m != nil {
		if _, err := parseRate(m[1]); err == nil {
			return fmt.Errorf("a comma is missing before %q: write %q", m[2], m[1]+", "+m[2])
		}
	}
	if startOfNumber().MatchString(text) {
		return fmt.Errorf("%q is a part of a number: put a limit with a comma in quotes, such as "+
			`"15,000 per hour"`, text)
	}
	if _, err := parseMark(new(Limit), text, false); err == nil {
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
		return "", fmt.Errorf("counts %q: write %q, which counts each call as 1, "+
			"or %q, which counts its cost", word, number+" calls "+window, rest)
	}
	if problem := UnitProblem(word); problem != "" {
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
		return strings.TrimPrefix(l.Rate(), "0 per "), err
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

// parseMark sets in l what a mark says, and returns its kind. last says that no mark follows.
func parseMark(l *Limit, mark string, last bool) (kind string, err error) {
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
	case hasPrefix(mark, upToWord):
		return strings.TrimSpace(upToWord), parseUpTo(l, mark[len(upToWord):])
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
	case strings.HasPrefix(lower, "per "), strings.HasPrefix(lower, "by "):
		return fmt.Errorf("%.40q is no mark: write each caller, each group, each address or each {parameter}",
			mark)
	case strings.HasSuffix(lower, " slots"):
		return fmt.Errorf("%.40q is gone: limits to 1,000 are exact; leave it out", mark)
	case lower == "leaky bucket":
		return fmt.Errorf("%.40q is counted as a token bucket: write token bucket", mark)
	case lower == "sliding window", lower == "sliding log", lower == "sliding-window":
		return fmt.Errorf("%.40q is what a limit is without a mark: leave it out", mark)
	case ratePattern().MatchString(mark), atOncePattern().MatchString(mark):
		return fmt.Errorf("%.40q is another limit: write two limits", mark)
	case targetPattern().MatchString(mark) || strings.Contains(mark, "/"):
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
		return 0, "", fmt.Errorf("each %s: write each caller, "+
			"or each group for a customer with several keys", lower)
	case "ip":
		return 0, "", errors.New("each ip: write each address")
	case "pattern", "route", "method":
		return 0, "", fmt.Errorf("each %s: write each caller and pattern", lower)
	case "caller and address":
		return 0, "", errors.New("each caller and address: write two limits, " +
			"one for each caller and one for each address")
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
		return 0, "", fmt.Errorf("each {%.40s}: only a parameter of one segment, {%.40s}, "+
			"can be counted apart", name, strings.TrimSuffix(name, "+"))
	case !paramPattern().MatchString(name):
		return 0, "", fmt.Errorf("each {%.40s}: a parameter's name has letters, digits, . - _ and $", name)
	}
	return who, name, nil
}

var paramPattern = pattern(`^[A-Za-z0-9._$-]+$`)

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
