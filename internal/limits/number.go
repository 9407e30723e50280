package limits

import (
	"fmt"
	"strconv"
	"strings"
)

// number matches digits in groups of three, or without separators.
const number = `[0-9][0-9,_]*(?: [0-9]{3})*`

var numberPattern = pattern(`^(?:[0-9]+|[0-9]{1,3}(?:[,_ ][0-9]{3})+)$`)

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
	if err != nil || !numberPattern().MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a whole number, such as 100 or 1,000", text)
	}
	return n, nil
}
