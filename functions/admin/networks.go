package main

import (
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"tidegate/functions/admin/server"
	"tidegate/internal/proxies"
)

// livePath is open to every network. It reports that the function runs, and does nothing
// else.
const livePath = "/healthz/live"

// onlyFrom answers 403 to requests from outside of the networks, before it reads,
// connects or logs anything. Without networks every request passes. The address is the
// one that API Gateway saw, so that the networks of proxies keep out calls past them.
func (c *settings) onlyFrom(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := r.URL.Path
		if rest, below := strings.CutPrefix(address, c.BasePath+"/"); below {
			address = "/" + rest // some gateways remove the base path
		}
		networks := c.networks
		if len(c.ownerNetworks) > 0 && c.forOwners(address) {
			networks = c.ownerNetworks
		}
		if len(networks) == 0 || address == livePath || within(networks, r.RemoteAddr) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusForbidden)
		// WriteString fails only after the client disconnected.
		_, _ = io.WriteString(w, "Your network is not allowed here.\n")
	})
}

// client replaces the address that API Gateway saw by the client's, as TRUSTED_PROXIES
// says. Throttles count the client then.
func (c *settings) client(next http.Handler) http.Handler {
	if !c.proxies.Enabled() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if source, ok := proxies.ParseAddr(r.RemoteAddr); ok {
			r.RemoteAddr = c.proxies.Client(source, r.Header.Values).Addr.String()
		}
		next.ServeHTTP(w, r)
	})
}

// forOwners reports whether a path is that of the view of keys' owners.
func (c *settings) forOwners(address string) bool {
	return c.OwnerView != ownerOff && address == server.OwnerPath
}

// within reports whether an address, with or without a port, is in one of the networks.
// An invalid address is not.
func within(networks []netip.Prefix, text string) bool {
	addr, ok := proxies.ParseAddr(text)
	return ok && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
