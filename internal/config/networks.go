package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Networks parses networks such as 203.0.113.0/24 and 2001:db8::/32, and single
// addresses, separated by commas or spaces. An empty text gives none. The error names
// each wrong item and says how to write it.
func Networks(text string) ([]netip.Prefix, error) {
	if text == "" {
		return nil, nil
	}
	var all []netip.Prefix
	var errs []error
	for item := range strings.FieldsFuncSeq(text, func(c rune) bool {
		return strings.ContainsRune(", \t\r\n", c)
	}) {
		prefix, err := network(item)
		all, errs = append(all, prefix), append(errs, err)
	}
	if len(all) == 0 {
		return nil,
			errors.New("has no network: give some such as 203.0.113.0/24 or 2001:db8::/32, or leave it out")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

func network(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("has %.60q, which is no network: write it such as 203.0.113.0/24 or "+
			"2001:db8::/32", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("has %.60q: write it as a network of IPv4", text)
	case p != p.Masked():
		return p, fmt.Errorf("has %.60q, whose address goes beyond its length: write %s", text, p.Masked())
	}
	return p, nil
}
