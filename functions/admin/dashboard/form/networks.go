package form

import (
	"net/netip"
	"strings"

	"tidegate/functions/admin/dashboard/page"
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
