package form

import (
	"regexp"
	"strconv"
	"strings"

	"tidegate/functions/admin/dashboard/page"
)

var (
	ungrouped = regexp.MustCompile(`^[0-9]+$`)
	grouped   = regexp.MustCompile(`^[0-9]{1,3}([,_ \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)
	decimal   = regexp.MustCompile(`^[0-9]{1,6}([.,][0-9]{1,2})?$`)
)

// Whole returns the number that was typed, least to most, and notes if it is none.
func (in *Input) Whole(missing string, least, most int64) int64 {
	return in.count(missing, least, most, "")
}

// count is Whole for a number of something, which the message names.
func (in *Input) count(missing string, least, most int64, of string) int64 {
	text := strings.TrimSpace(in.Text)
	if text == "" {
		in.Error = missing
		return 0
	}
	if !ungrouped.MatchString(text) && !grouped.MatchString(text) {
		in.Error = "Enter a whole number, such as 100 or 1,000."
		return 0
	}
	n, err := strconv.ParseInt(strings.Map(onlyDigit, text), 10, 64)
	if err != nil || n < least || n > most {
		in.Error = "Must be " + page.Number(least) + " to " + page.Number(most) + of + "."
	}
	return n
}

func onlyDigit(c rune) rune {
	if c < '0' || c > '9' {
		return -1
	}
	return c
}

// Hundredths returns a number with up to two decimals in hundredths, least to most, and
// notes if it is none.
func (in *Input) Hundredths(least, most int64) int64 {
	text := strings.TrimSpace(in.Text)
	if !decimal.MatchString(text) {
		in.Error = "Enter a number such as 2 or 0.5."
		return 0
	}
	whole, part, _ := strings.Cut(strings.ReplaceAll(text, ",", "."), ".")
	n, _ := strconv.ParseInt(whole+(part + "00")[:2], 10, 64) // digits, by the pattern
	if n < least || n > most {
		in.Error = "Must be 0.01 to " + page.Number(most/100) + "."
	}
	return n
}
