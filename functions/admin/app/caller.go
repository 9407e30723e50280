package app

import (
	"net/netip"
	"regexp"
)

// v6Bits is how the check function masks IPv6 addresses unless it is configured
// otherwise.
const v6Bits = 64

var callerPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{22}$`)

var idPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// IsID reports whether a text can be the id of a key or caller.
func IsID(text string) bool { return idPattern.MatchString(text) }

// IsCaller reports whether a text can be the id of a caller without an API key.
func IsCaller(id string) bool { return callerPattern.MatchString(id) }

// ParseAddress reads a client's address and the network that checks count it as. It
// reports false for a text that is no address, or has a zone.
func ParseAddress(text string) (netip.Addr, netip.Prefix, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, netip.Prefix{}, false
	}
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = v6Bits
	}
	network, err := a.Prefix(bits)
	return a, network, err == nil
}
