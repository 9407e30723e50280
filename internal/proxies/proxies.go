// Package proxies finds the address of a client that calls through proxies, such as a
// CDN. The check and admin functions import it.
//
// Anybody can send the headers that it reads. So they count only where the operator says
// which proxies are in front, and only the part that those proxies wrote.
package proxies

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/config"
)

// The headers that proxies write.
const (
	ForwardedFor  = "X-Forwarded-For"
	ViewerAddress = "CloudFront-Viewer-Address"
)

const (
	cloudFront = "cloudfront"
	maxHops    = 10
)

// Trusted says which proxies are in front of API Gateway. The zero value trusts none.
type Trusted struct {
	text       string
	networks   []netip.Prefix
	cloudFront bool
	hops       int
}

// Parse parses TRUSTED_PROXIES: networks, separated by commas; cloudfront; or the number
// of proxies in front of API Gateway. An empty text trusts none.
func Parse(text string) (Trusted, error) {
	t := Trusted{text: strings.TrimSpace(text)}
	if t.text == "" {
		return t, nil
	}
	if t.cloudFront = t.text == cloudFront; t.cloudFront {
		return t, nil
	}
	if hops, err := strconv.Atoi(t.text); err == nil {
		if hops < 1 || hops > maxHops {
			return Trusted{}, fmt.Errorf("is %d: a number of proxies must be 1 to %d", hops, maxHops)
		}
		t.hops = hops
		return t, nil
	}
	var err error
	if t.networks, err = config.Networks(t.text); err != nil {
		return Trusted{}, fmt.Errorf("%w; or it must be cloudfront, or a number of proxies", err)
	}
	if slices.ContainsFunc(t.networks, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return Trusted{}, errors.New("trusts every network, so clients could choose their address: " +
			"name the proxies' networks, cloudfront, or a number of proxies")
	}
	return t, nil
}

// String returns the text that was parsed.
func (t Trusted) String() string { return t.text }

// Enabled reports whether any proxy is trusted.
func (t Trusted) Enabled() bool { return t.text != "" }

// Header returns the name of the header that counts; empty if none is read.
func (t Trusted) Header() string {
	switch {
	case !t.Enabled():
		return ""
	case t.cloudFront:
		return ViewerAddress
	}
	return ForwardedFor
}

// Client is the address of a client.
type Client struct {
	Addr netip.Addr // IPv4 has its short form; not valid if API Gateway saw none
	// Why says which address counts and why. It contains no address.
	Why string
}

// Client returns the client's address: that which API Gateway saw (source), or one that a
// trusted proxy reports in the headers. header returns the values of a header. A header
// that is missing, given twice or malformed where it counts leaves source: the client
// never chooses.
func (t Trusted) Client(source netip.Addr, header func(name string) []string) Client {
	source = source.Unmap().WithZone("")
	fallback := func(why string) Client {
		return Client{source, "the address that API Gateway saw: " + why}
	}
	switch {
	case !source.IsValid():
		return Client{Why: "API Gateway saw no address"}
	case !t.Enabled():
		return fallback("TRUSTED_PROXIES is not set")
	}
	if len(t.networks) > 0 && !t.trusts(source) {
		return fallback("it is not in TRUSTED_PROXIES")
	}
	name := t.Header()
	values := header(name)
	switch {
	case len(values) == 0:
		return fallback("the call has no " + name)
	case len(values) > 1:
		return fallback(name + " is given more than once")
	}
	var addr netip.Addr
	var ok bool
	switch {
	case t.cloudFront:
		addr, ok = parseViewer(values[0])
	case t.hops > 0:
		addr, ok = t.beforeHops(source, values[0])
	default:
		addr, ok = t.firstUntrusted(values[0])
	}
	if !ok {
		return fallback(name + " has no address where the client's must be")
	}
	return Client{addr, "the client's address in " + name}
}

func (t Trusted) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(t.networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// beforeHops returns the address that the first of the trusted proxies saw. API Gateway
// adds source, which is the last proxy, to the list; without it the list is shorter.
func (t Trusted) beforeHops(source netip.Addr, list string) (netip.Addr, bool) {
	all := strings.Split(list, ",")
	if last, ok := parseAddr(all[len(all)-1]); ok && last == source {
		all = all[:len(all)-1]
	}
	if len(all) < t.hops {
		return netip.Addr{}, false
	}
	return parseAddr(all[len(all)-t.hops])
}

// firstUntrusted returns the last address of the list that is no trusted proxy.
func (t Trusted) firstUntrusted(list string) (netip.Addr, bool) {
	all := strings.Split(list, ",")
	for _, text := range slices.Backward(all) {
		addr, ok := parseAddr(text)
		if !ok || !t.trusts(addr) {
			return addr, ok
		}
	}
	return parseAddr(all[0])
}

// ParseAddr reads the address that a gateway saw, alone or with a port: 192.0.2.1:443,
// [2001:db8::1]:443. It drops the port and a zone, and gives IPv4 its short form. ok is
// false for a text that is no address.
func ParseAddr(text string) (addr netip.Addr, ok bool) {
	text = strings.Trim(text, " \t")
	addr, ok = parse(text)
	if host, _, found := cutPort(text); found && !ok {
		addr, ok = parse(host)
	}
	return addr.Unmap().WithZone(""), ok
}

// parse parses an address, which may stand in brackets.
func parse(text string) (netip.Addr, bool) {
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}

// cutPort cuts a text before its last colon, if a port follows.
func cutPort(text string) (host string, port uint64, found bool) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return "", 0, false
	}
	port, err := strconv.ParseUint(text[colon+1:], 10, 16)
	return text[:colon], port, err == nil
}

// parseAddr parses an entry of X-Forwarded-For: an address, or one with a port.
func parseAddr(text string) (netip.Addr, bool) {
	addr, ok := ParseAddr(text)
	if !ok || strings.Contains(text, "%") {
		return netip.Addr{}, false
	}
	return known(addr)
}

// parseViewer parses CloudFront-Viewer-Address: an address and a port, without brackets
// around an IPv6 address.
func parseViewer(text string) (netip.Addr, bool) {
	host, port, found := cutPort(text)
	addr, ok := parse(host)
	if !found || !ok || port == 0 {
		return netip.Addr{}, false
	}
	return known(addr)
}

// known refuses addresses that no client has.
func known(addr netip.Addr) (netip.Addr, bool) {
	if addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}
