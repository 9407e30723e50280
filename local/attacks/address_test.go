//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"testing"
)

// claims are headers in which a client may claim another address.
var claims = []string{
	"X-Forwarded-For", "Forwarded", "CF-Connecting-IP", "X-Real-IP", "True-Client-IP", "X-Client-IP",
	"X-Amzn-Source-Ip",
}

// A client's address is that of its connection, whatever its headers claim.
func TestAttackForgedAddresses(t *testing.T) {
	a, i := attack(t, "forged client addresses",
		"7 headers that claim another address with every call, and changing addresses of one IPv6 "+
			"network, at a limit of 2 for each address, on both APIs")
	i.route(t, "by-address", 1, "2 per hour, on by-address, each address")
	_, secret := i.key(t, wide)
	for api, c := range map[string]struct {
		target target
		denied int
		net    int
	}{"REST API": {i.rest, http.StatusTooManyRequests, 1}, "HTTP API": {i.http, http.StatusForbidden, 2}} {
		for n, claim := range append(claims, "an IPv6 network") {
			a.probe()
			var last int
			for call := range 3 {
				address := fmt.Sprintf("203.0.%d.%d", c.net, n)
				if n == len(claims) {
					address = fmt.Sprintf("2001:db8:%d::%d", c.net, call)
				}
				value := fmt.Sprintf("192.0.2.%d", call)
				if claim == "Forwarded" {
					value = "for=" + value
				}
				header := []string{"x-api-key", secret}
				if n < len(claims) {
					header = append(header, claim, value)
				}
				got := c.target.from(t, address, http.MethodGet, "/by-address", "", header...)
				if last = got.status; call < 2 && last != http.StatusOK {
					t.Errorf("%s, %s: call %d: %d", api, claim, call+1, last)
				}
			}
			if last != c.denied {
				t.Errorf("%s, %s: the third call: %d, want %d", api, claim, last, c.denied)
			}
		}
	}
}
