package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// ownKey is the response to a key's owner.
type ownKey struct {
	ID, Name, Plan string
	Limits         []struct {
		Text            string
		Used, Remaining int64
		Next            int64
	}
	Days []struct {
		Date                  string
		Allowed, Denied, Cost int64
	}
}

func withKey(secret string) http.Header { return http.Header{"X-Api-Key": {secret}} }

// getOwnKey requests the owner's view of a key.
func getOwnKey(s *sitetest.Site, header http.Header) sitetest.Reply {
	s.T.Helper()
	return s.Do(http.MethodGet, server.OwnerPath, nil, header)
}

// A key's owner sees the state of its limits and the calls of 30 days, and no other key.
// Viewing counts no call.
func TestOwnKey(t *testing.T) {
	s := sitetest.New(t)
	s.Keys.Use("acme", 3)
	s.Keys.Use("bolt", 9)
	now := time.Now().UTC()
	s.Keys.Called("acme", now.Add(-time.Minute), 7, 2)
	s.Keys.Called("bolt", now.Add(-time.Minute), 50, 50)
	secret := s.Keys.Secrets["acme"].Reveal()
	var first string
	for _, header := range []http.Header{withKey(secret), sitetest.Bearer(secret), withKey(secret)} {
		got := getOwnKey(s, header).Wants(t, http.StatusOK)
		var own ownKey
		if err := json.Unmarshal([]byte(got.Body), &own); err != nil {
			t.Fatal(err)
		}
		if own.Name != "acme" || own.ID != "{acme}" || own.Plan != "free" || len(own.Limits) != 1 ||
			own.Limits[0].Used != 3 || own.Limits[0].Remaining != 7 || own.Limits[0].Next <= 0 {
			t.Fatalf("got %s, want acme with 3 of 10 used", got.Body)
		}
		calls := int64(0)
		for _, day := range own.Days {
			calls += 10*day.Allowed + day.Denied
		}
		if len(own.Days) != 30 || calls != 72 || own.Days[29].Date != now.Format(time.DateOnly) {
			t.Errorf("got %s, want 30 days with 7 allowed and 2 denied calls", got.Body)
		}
		if strings.Contains(got.Body, "bolt") || strings.Contains(got.Body, secret[20:]) {
			t.Errorf("got %s, want neither bolt nor the secret in it", got.Body)
		}
		vary := strings.Join(got.Header.Values("Vary"), ", ")
		if cache := got.Header.Get("Cache-Control"); cache != "private, max-age=1" ||
			!strings.Contains(vary, "X-API-Key, Authorization") {
			t.Errorf("got Cache-Control %q, Vary %q, want private and both headers", cache, vary)
		}
		if first == "" {
			first = got.Body
		}
		if got.Body != first {
			t.Errorf("the view changed: got %s, then %s", first, got.Body)
		}
	}
}

// Owners do not see limits that are not enforced.
func TestOwnKeyWithoutLimits(t *testing.T) {
	s := sitetest.New(t)
	s.Keys.Plan("free", sitetest.Limit("10 per 10 seconds, shadow"))
	getOwnKey(s, withKey(s.Keys.Secrets["acme"].Reveal())).Wants(t, http.StatusOK, `"limits":[]`)
	s.Keys.OverrideKey("acme")
	getOwnKey(s, withKey(s.Keys.Secrets["acme"].Reveal())).Wants(t, http.StatusOK, `"limits":[]`)
}

// refusedSecrets returns secrets that are not accepted, by the reason.
func refusedSecrets(t *testing.T, s *sitetest.Site) map[string]string {
	t.Helper()
	revoke := func(k *policy.Key) { k.Status = policy.Revoked }
	expire := func(k *policy.Key) { k.Expires = time.Now().Add(2 * time.Second).Truncate(time.Second) }
	ban := func(k *policy.Key) { k.Banned = time.Now().Add(time.Hour) }
	all := map[string]string{"garbage": "tg_x", "another form": "0123456789abcdef0123456789abcdef01234567"}
	changes := map[string]func(*policy.Key){"revoked": revoke, "expired": expire, "banned": ban}
	for name, change := range changes {
		s.Keys.CreateKey(name, "free")
		s.Keys.UpdateKey(name, change)
		all[name] = s.Keys.Secrets[name].Reveal()
	}
	k := s.Keys.CreateKey("rotated", "free")
	if _, _, err := s.Keys.Rotate(t.Context(), k.ID, k.Version, 0, sitetest.ByTest); err != nil {
		t.Fatal(err)
	}
	all["rotated"] = s.Keys.Secrets["rotated"].Reveal()
	for name, id := range map[string]string{"id of another key": s.Keys.IDs["acme"],
		"invented": "0123456789AB"} {
		invented, err := apikey.Renew("demo", id)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = invented.Reveal()
	}
	s.Keys.Now = func() time.Time { return time.Now().Add(time.Minute) } // the key "expired" has expired
	return all
}

// A key that may not call is refused like an unknown key, and no other credential is
// accepted.
func TestOwnKeyRefused(t *testing.T) {
	s := sitetest.New(t)
	secret := s.Keys.Secrets["acme"].Reveal()
	headers := map[string]http.Header{
		"none": {}, "an empty one": withKey(""), "two": {"X-Api-Key": {secret, secret}},
		"two bearers":    {"Authorization": {"Bearer " + secret, "Bearer " + secret}},
		"another scheme": {"Authorization": {"Basic " + secret}},
		"a read token":   sitetest.Bearer(s.NewToken(token.Read)),
		"a write token":  withKey(s.NewToken(token.Write)),
	}
	for name, text := range refusedSecrets(t, s) {
		headers[name] = withKey(text)
	}
	s.Login() // a session does not help
	var first string
	for name, header := range headers {
		got := getOwnKey(s, header)
		if got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" ||
			got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got %d %v %s, want 401", name, got.StatusCode, got.Header, got.Body)
		}
		if first == "" {
			first = got.Body
		}
		if got.Body != first {
			t.Errorf("%s: got %s, but others get %s", name, got.Body, first)
		}
	}
	for _, query := range []string{"key", "x-api-key", "X-API-Key", "access_token"} {
		got := s.Get(server.OwnerPath + "?" + url.Values{query: {secret}}.Encode())
		if got.StatusCode != http.StatusUnauthorized && got.StatusCode != http.StatusUnprocessableEntity ||
			strings.Contains(got.Body, secret) {
			t.Errorf("in the query: got %d %s, want a refusal without the secret", got.StatusCode, got.Body)
		}
	}
}

// The previous secret of a key is accepted during its grace period.
func TestOwnKeyInGrace(t *testing.T) {
	s := sitetest.New(t)
	old := s.Keys.Secrets["acme"].Reveal()
	k := s.Keys.Key("acme")
	_, _, err := s.Keys.Rotate(t.Context(), k.ID, k.Version, time.Hour, sitetest.ByTest)
	if err != nil {
		t.Fatal(err)
	}
	getOwnKey(s, withKey(old)).Wants(t, http.StatusOK, `"graceUntil":"`)
	s.Keys.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	getOwnKey(s, withKey(old)).Wants(t, http.StatusUnauthorized)
}

// The value of a key from another system is accepted if ForeignKeys is true.
func TestOwnForeignKey(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	s := sitetest.New(t)
	s.Keys.ForeignKeys = true
	n := policy.NewKey{Name: "old", Env: "live", Plan: "free", Value: value}
	_, _, err := s.Keys.Create(t.Context(), n, sitetest.ByTest)
	s.Keys.Must(err)
	getOwnKey(s, withKey(value)).Wants(t, http.StatusOK, `"name":"old"`)
	getOwnKey(s, withKey(value+"x")).Wants(t, http.StatusUnauthorized)
	s.Keys.ForeignKeys = false
	getOwnKey(s, withKey(value)).Wants(t, http.StatusUnauthorized)
}

// getOwnKeyFrom requests the owner's view of a key from an address.
func getOwnKeyFrom(s *sitetest.Site, address, secret string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "https://limits.example"+server.OwnerPath, nil)
	r.RemoteAddr = address
	r.Header.Set("X-Api-Key", secret)
	w := httptest.NewRecorder()
	s.Server.Config.Handler.ServeHTTP(w, r)
	return w
}

// Requests with unknown keys are throttled by network, like wrong passwords; those with
// valid keys by key. Neither affects other valid keys from the same network.
func TestOwnersAreThrottled(t *testing.T) {
	s := sitetest.New(t)
	s.Store.SetTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	good := s.Keys.Secrets["acme"].Reveal()
	count := func(secret string, address func(int) string, calls int) map[int]int {
		seen := map[int]int{}
		for i := range calls {
			w := getOwnKeyFrom(s, address(i), secret)
			seen[w.Code]++
			if wait := w.Header().Get("Retry-After"); w.Code == http.StatusTooManyRequests && wait != "60" {
				t.Fatalf("got Retry-After %q, want 60", wait)
			}
		}
		return seen
	}
	at := func(address string) func(int) string { return func(int) string { return address } }
	for _, c := range []struct {
		name, secret string
		address      func(int) string
		calls        int
		want         map[int]int
	}{
		{"unknown, one network", "tg_x", func(i int) string { return fmt.Sprintf("[2001:db8::%x]:443", i) },
			30, map[int]int{401: 20, 429: 10}},
		{"unknown, another network", "tg_x", at("192.0.2.1"), 1, map[int]int{401: 1}},
		{"valid, from a throttled network", good, at("2001:db8::1"), 1, map[int]int{200: 1}},
		{"valid, over its own limit", good, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, 70,
			map[int]int{200: 59, 429: 11}},
		{"another valid key, same network", s.Keys.Secrets["bolt"].Reveal(), at("198.51.100.1"), 1,
			map[int]int{200: 1}},
	} {
		if got := count(c.secret, c.address, c.calls); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// While Valkey is unavailable, the view of a key is unavailable too.
func TestOwnKeyWithoutStore(t *testing.T) {
	s := sitetest.New(t)
	secret := s.Keys.Secrets["acme"].Reveal()
	s.Store.SetError("ERR out of order")
	getOwnKey(s, withKey(secret)).Wants(t, http.StatusServiceUnavailable)
	s.Store.SetError("")
	s.Keys.Server.SetError("ERR out of order")
	getOwnKey(s, withKey(secret)).Wants(t, http.StatusServiceUnavailable)
}

// If the view is off, its address behaves like an unknown one.
func TestOwnerViewOff(t *testing.T) {
	s := sitetest.New(t, func(s *sitetest.Site) { s.Config.OwnerView = false })
	secret := s.Keys.Secrets["acme"].Reveal()
	getOwnKey(s, withKey(secret)).Wants(t, http.StatusUnauthorized)
	s.Login()
	getOwnKey(s, withKey(secret)).Wants(t, http.StatusNotFound)
}
