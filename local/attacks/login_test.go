//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// tryLogin tries a password from an address and returns the status.
func (i *installation) tryLogin(t *testing.T, address, user, password string, header ...string) int {
	t.Helper()
	form := url.Values{"user": {user}, "password": {password}}
	header = append(header, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site",
		"same-origin")
	return i.site.from(t, address, http.MethodPost, "/login", form.Encode(), header...).status
}

// Guessing is limited for each network, whatever its addresses, headers and accounts.
// Users of other networks can still log in.
func TestAttackPasswordGuessing(t *testing.T) {
	a, i := attack(t, "password guessing",
		"wrong passwords from changing addresses of one IPv6 network, under forged forwarding "+
			"headers, for one account and for many")
	guess := func(n int, user string, header ...string) int {
		a.probe()
		return i.tryLogin(t, fmt.Sprintf("2001:db8:77:1::%x", n+1), user, "wrong", header...)
	}
	for n := range 9 {
		claim := fmt.Sprintf("192.0.2.%d", n)
		want := http.StatusUnauthorized
		if n >= 5 {
			want = http.StatusTooManyRequests
		}
		if got := guess(n, editorName, "X-Forwarded-For", claim, "Forwarded", "for="+claim, "X-Real-IP",
			claim); got != want {
			t.Errorf("guess %d at one account: %d, want %d", n+1, got, want)
		}
	}
	a.probe()
	if got := i.tryLogin(t, "2001:db8:77:1::aaaa", editorName,
		i.secrets[editorName]); got != http.StatusTooManyRequests {
		t.Errorf("the right password from there: %d", got)
	}
	for n := range 20 {
		want := http.StatusUnauthorized
		if n >= 15 {
			want = http.StatusTooManyRequests
		}
		if got := guess(n, fmt.Sprintf("somebody %d", n)); got != want {
			t.Errorf("guess %d at another account: %d, want %d", n+1, got, want)
		}
	}
	for _, elsewhere := range []string{"2001:db8:77:2::1", "198.51.100.7"} {
		a.probe()
		if got := i.tryLogin(t, elsewhere, editorName, i.secrets[editorName]); got != http.StatusSeeOther {
			t.Errorf("the right password from elsewhere: %d", got)
		}
	}
}
