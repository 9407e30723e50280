package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/config"
)

// unreadBody is a request body that fails the test if it is read.
type unreadBody struct{ t *testing.T }

func (u unreadBody) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("read")
}

// Requests from other networks are refused, whatever their headers, before their body is
// read.
func TestOnlyFromNetworks(t *testing.T) {
	networks, err := config.Networks("203.0.113.0/24, 198.51.100.7 2001:db8::/32")
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	c := settings{networks: networks, BasePath: "/prod"}
	h := c.onlyFrom(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for _, c := range []struct {
		address, path string
		passes        bool
	}{
		{"203.0.113.9", "/", true},
		{"203.0.113.9:443", "/", true},
		{"::ffff:203.0.113.9", "/", true},
		{"198.51.100.7", "/prod/login", true},
		{"2001:db8:1::1", "/", true},
		{"[2001:db8:1::1]:443", "/", true},
		{"2001:db8:1::1%eth0", "/", true},
		{"198.51.100.8", "/", false},
		{"203.0.114.1", "/login", false},
		{"2001:db9::1", "/api/v1/settlements", false},
		{"::203.0.113.9", "/", false},
		{"64:ff9b::203.0.113.9", "/", false},
		{"127.0.0.1", "/healthz", false},
		{"192.0.2.1", "/healthz/live", true},
		{"192.0.2.1", "/prod/healthz/live", true},
		{"192.0.2.1", "/healthz/live/", false},
		{"192.0.2.1", "/healthz/live/../../keys", false},
		{"192.0.2.1", "/x/healthz/live", false},
		{"", "/", false},
		{"203.0.113.9, 192.0.2.1", "/", false},
		{"localhost", "/", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "https://"+host+"/", unreadBody{t})
		r.URL.Path, r.RemoteAddr = c.path, c.address
		for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip",
			"True-Client-Ip", "X-Client-Ip"} {
			r.Header.Set(name, "203.0.113.9")
		}
		w, before := httptest.NewRecorder(), reached
		h.ServeHTTP(w, r)
		if passed := reached > before; passed != c.passes || !passed && w.Code != http.StatusForbidden {
			t.Errorf("%s from %q: got passed %t, status %d, want passed %t", c.path, c.address, passed,
				w.Code, c.passes)
		}
		if !c.passes && (w.Header().Get("Cache-Control") != "no-store" ||
			strings.Contains(w.Body.String(), "203.0.113")) {
			t.Errorf("%s from %q: got %v %s, want no-store and no address", c.path, c.address, w.Header(),
				w.Body)
		}
	}
}

// OWNER_NETWORKS applies to the path of the owners' view only.
func TestOwnerNetworks(t *testing.T) {
	inside, err := config.Networks("203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	everybody, err := config.Networks("0.0.0.0/0,::/0")
	if err != nil {
		t.Fatal(err)
	}
	reached := false
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })
	passes := map[string]map[string]bool{
		"/api/v1/self":      {ownerAPI: true},
		"/prod/api/v1/self": {ownerAPI: true},
		"/api/v1/self/":     {}, "/api/v1/keys": {}, "/self": {}, "/static/app.css": {}, "/theme": {},
		"/": {}, "/login": {}, "/prod/prod/api/v1/self": {}, "/x/api/v1/self": {},
	}
	for path, views := range passes {
		for _, view := range []string{ownerOff, ownerAPI} {
			for name, owners := range map[string][]netip.Prefix{"everybody": everybody, "unset": nil} {
				c := settings{networks: inside, ownerNetworks: owners, BasePath: "/prod", OwnerView: view}
				r := httptest.NewRequest(http.MethodGet, "https://"+host+"/", nil)
				r.URL.Path, r.RemoteAddr, reached = path, "192.0.2.1", false
				c.onlyFrom(h).ServeHTTP(httptest.NewRecorder(), r)
				if want := views[view] && owners != nil; reached != want {
					t.Errorf("%s, view %s, networks %s: got passed %t, want %t", path, view, name, reached,
						want)
				}
			}
		}
	}
}

// Behind API Gateway the address is that of the event. Without networks, every address is
// allowed.
func TestNetworksBehindAPIGateway(t *testing.T) {
	for variable, want := range map[string]int{
		"ADMIN_NETWORKS=192.0.2.0/24": http.StatusOK, "ADMIN_NETWORKS=203.0.113.0/24": http.StatusForbidden,
		"ADMIN_NETWORKS=": http.StatusOK,
	} {
		f := newFixture(t)
		c, err := readConfig(environment(variable, "VALKEY_URL=valkey://"+f.server.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		e := event("GET", "/login", "")
		e.Headers["x-forwarded-for"] = "203.0.113.5"
		r, body := invoke(t, algnhsa.New(c.onlyFrom(f), lambdaOptions()), e)
		if r.StatusCode != want {
			t.Errorf("%s: got %d %s, want %d", variable, r.StatusCode, body, want)
		}
	}
}

// Behind trusted proxies the server, and so its throttles, sees the client's address.
// ADMIN_NETWORKS is for the address that API Gateway saw.
func TestClientBehindProxies(t *testing.T) {
	for _, c := range []struct{ proxies, forwarded, want string }{
		{"", "203.0.113.5", "192.0.2.1"},
		{"192.0.2.0/24", "198.51.100.9,203.0.113.5,192.0.2.1", "203.0.113.5"},
		{"198.51.100.0/24", "203.0.113.5,192.0.2.1", "192.0.2.1"},
		{"1", "198.51.100.9,2001:db8::5,192.0.2.1", "2001:db8::5"},
		{"1", "unknown,192.0.2.1", "192.0.2.1"},
		{"cloudfront", "203.0.113.5,192.0.2.1", "192.0.2.1"},
	} {
		f := newFixture(t)
		settings, err := readConfig(environment("TRUSTED_PROXIES="+c.proxies, "ADMIN_NETWORKS=192.0.2.1",
			"VALKEY_URL=valkey://"+f.server.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })
		e := event("GET", "/login", "")
		e.Headers["x-forwarded-for"] = c.forwarded
		invoke(t, algnhsa.New(settings.onlyFrom(settings.client(handler)), lambdaOptions()), e)
		if got != c.want {
			t.Errorf("TRUSTED_PROXIES=%s, %s: got %s, want %s", c.proxies, c.forwarded, got, c.want)
		}
	}
}
