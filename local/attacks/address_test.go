//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
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
	i.rules(t, policy.Route{
		Name: "by address", Pattern: route.Pattern{Path: "/by-address"}, Cost: 1,
		PerIP: []limiter.Limit{{Requests: 2, Window: time.Hour}},
	})
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

// spellings are other ways to write the path /orders/17. Some backends may treat them as
// the same path.
var spellings = []string{
	"/orders/17/", "//orders/17", "/orders//17", "/./orders/17", "/orders/./17", "/x/../orders/17",
	"/orders/x/../17", "/orders/%31%37",
	"/%6frders/17", "/orders%2f17", "/orders%2F17", "/orders/17%2f", "/%2forders/17", "/orders/17?x=1",
	"/orders/17?", "/orders/17//",
	"/orders/17/.", "/orders/17/x/..", "/%2e/orders/17", "/x/%2e%2e/orders/17", "///orders///17",
	"/orders/17%20", "/orders/17;v=1",
	"/orders/17%00", "/Orders/17", "/orders\\17", "/orders/17%23x",
}

// Another spelling of a path does not evade the limit of its route.
func TestAttackSpellings(t *testing.T) {
	a, i := attack(t, "spellings of a route", "27 spellings of a path whose limit is reached, on both APIs")
	i.rules(t,
		policy.Route{
			Name: "order", Pattern: route.Pattern{Path: "/orders/{id}"}, Cost: 1,
			PerKey: []limiter.Limit{{Requests: 1, Window: time.Hour}},
		},
	)
	for api, target := range map[string]target{"REST API": i.rest, "HTTP API": i.http} {
		_, secret := i.key(t, wide)
		if got := target.get(t, "/orders/17", "x-api-key", secret); got.status != http.StatusOK {
			t.Fatalf("%s: %d", api, got.status)
		}
		for _, path := range spellings {
			a.probe()
			got := target.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: "+
				secret+"\r\n\r\n")
			if got.status < 400 || got.status >= 500 {
				t.Errorf("%s, %s: %d", api, path, got.status)
			}
		}
	}
}

// A refused address is refused in each of its forms.
func TestAttackRefusedAddress(t *testing.T) {
	a, i := attack(t, "other forms of a refused address",
		"a good key from a refused IPv4 address, plain and mapped into IPv6, under headers that claim "+
			"another, on both APIs")
	_, secret := i.key(t, wide)
	for _, address := range []string{refusedAddress, "::ffff:" + refusedAddress, "::ffff:c000:242",
		"0:0:0:0:0:ffff:192.0.2.66"} {
		for _, claim := range claims {
			for api, target := range map[string]target{"REST API": i.rest, "HTTP API": i.http} {
				a.probe()
				got := target.from(t, address, http.MethodGet, "/", "", "x-api-key", secret, claim,
					"198.51.100.1")
				if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
					t.Errorf("%s from %s, %s: %d", api, address, claim, got.status)
				}
			}
		}
	}
}

// The dashboard refuses clients outside of ADMIN_NETWORKS, whatever address they claim.
func TestAttackDashboardFromElsewhere(t *testing.T) {
	a, i := attack(t, "the dashboard from other networks",
		"pages, log-in, API and settlements from outside of `ADMIN_NETWORKS`, under headers that "+
			"claim an address inside")
	site, err := i.dashboard(map[string]string{"ADMIN_NETWORKS": "203.0.113.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Bearer " + i.machineToken(t, "write")
	if got := site.from(t, "203.0.113.9", http.MethodGet, "/api/v1/me", "", "Authorization",
		bearer); got.status != http.StatusOK {
		t.Fatalf("from inside: %d %s", got.status, got.body)
	}
	for _, address := range []string{"198.51.100.1", "2001:db8::1", "::ffff:198.51.100.1"} {
		for _, claim := range claims {
			for method, path := range map[string]string{
				http.MethodGet: "/login", http.MethodPost: "/api/v1/reservations/settle",
				http.MethodHead: "/", http.MethodPut: "/api/v1/policy",
			} {
				a.probe()
				got := site.from(t, address, method, path, "{}", "Authorization", bearer, claim,
					"203.0.113.9",
					"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin")
				if got.status != http.StatusForbidden {
					t.Errorf("%s %s from %s, %s: %d", method, path, address, claim, got.status)
				}
			}
		}
	}
}
