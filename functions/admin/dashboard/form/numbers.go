package form

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Prefixes reads networks that line breaks, commas or spaces part; a single address is a
// network too.
func (in *Input) Prefixes() []netip.Prefix {
	var list []netip.Prefix
	for _, word := range strings.FieldsFunc(in.Text, func(c rune) bool {
		return c == ',' || c == ';' || c <= ' '
	}) {
		p, err := netip.ParsePrefix(word)
		if a, single := netip.ParseAddr(word); err != nil && single == nil && a.Zone() == "" {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			in.Error = "“" + page.Clip(word, 50) +
				"” is no network. Enter a network such as 203.0.113.0/24 or 2001:db8::/32."
			return nil
		}
		list = append(list, p)
	}
	return list
}

// Span reads a time such as 10s, 5m, 1h30m or 2d.
func (in *Input) Span() policy.Duration {
	d, err := limiter.ParseWindow(strings.TrimSpace(in.Text))
	if err != nil {
		in.Error = "Enter a time such as 30s, 5m, 1h or 2d."
	}
	return policy.Duration(d)
}

// Lease reads a time that may be left out.
func (in *Input) Lease() policy.Duration {
	if strings.TrimSpace(in.Text) == "" {
		return 0
	}
	d := in.Span()
	if in.Error != "" {
		in.Error = "Enter a time such as 500ms, 1s or 10s, or leave it blank."
	}
	return d
}

// LeaseText is what lease reads.
func LeaseText(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	return limiter.ShortWindow(time.Duration(d))
}

var decimal = regexp.MustCompile(`^[0-9]{1,6}([.,][0-9]{1,2})?$`)

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
