package policydoc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tidegate/internal/limiter"
)

var (
	ratePattern = regexp.MustCompile(
		`^([0-9][0-9,_]*) +per +(?:calendar +([a-z]+)(?: +\(([A-Za-z0-9_+/-]+)\))?|(?:([0-9][0-9,_]*) +)?([a-z]+))$`)
	numberPattern = regexp.MustCompile(`^(?:[0-9]+|[0-9]{1,3}(?:[,_][0-9]{3})+)$`)
)

const advice = `write it as "100 per 10 seconds", "5 per second, token bucket" or "1,000 per calendar month (Europe/Berlin), fixed window"`

// ParseLimit reads what LimitText writes. Algorithms may also go by their names in
// configuration. Bounds are left to the limit's Validate.
func ParseLimit(text string) (limiter.Limit, error) {
	parts := strings.Split(text, ", ")
	l, err := parseRate(strings.TrimSpace(parts[0]))
	if err != nil {
		return limiter.Limit{}, err
	}
	for _, mark := range parts[1:] {
		if err := parseMark(&l, strings.TrimSpace(mark)); err != nil {
			return limiter.Limit{}, err
		}
	}
	return l, nil
}

func parseRate(text string) (l limiter.Limit, err error) {
	m := ratePattern.FindStringSubmatch(text)
	if m == nil {
		return l, fmt.Errorf("limit %.80q is not understood: %s", text, advice)
	}
	if l.Requests, err = parseNumber(m[1]); err != nil {
		return l, err
	}
	if m[2] != "" {
		if l.Zone = m[3]; l.Zone == utc {
			l.Zone = ""
		}
		l.Calendar, err = limiter.ParseCalendar(m[2])
		return l, err
	}
	count := int64(1)
	if m[4] != "" {
		if count, err = parseNumber(m[4]); err != nil {
			return l, err
		}
	}
	l.Window, err = limiter.JoinWindow(count, m[5])
	return l, err
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
	if mark == estimateMark {
		l.Algorithm = limiter.Counter
		return nil
	}
	for _, a := range limiter.Algorithms() {
		if mark == Algorithm(a) || mark == a.String() {
			l.Algorithm = a
			return nil
		}
	}
	return fmt.Errorf("%.40q says nothing about a limit: %s", mark, advice)
}

// ParsePercents reads thresholds as LimitText writes them, "50/80/100 %", or with commas
// or spaces in between. Bounds are left to the limit's Validate.
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

// parseNumber reads digits, which may stand in groups of three.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "").Replace(text), 10, 64)
	if err != nil || !numberPattern.MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a whole number, such as 100 or 1,000", text)
	}
	return n, nil
}
