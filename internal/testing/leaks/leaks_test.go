package leaks_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"tidegate/internal/testing/leaks"
)

const secret = `tg_live_4fQ/"+ü&hB7vE2kR9mX1cT5nW8zL3pD6sA0gJ`

// A canary is found in every form, and texts that resemble it are not.
func TestLeaks(t *testing.T) {
	text, _ := json.Marshal(map[string]string{"key": secret})
	for output, canary := range map[string]string{
		"a " + secret + " b": secret, strings.ToUpper(secret): secret, string(text): secret,
		"?key=" + url.QueryEscape(secret): secret, "/" + url.PathEscape(secret): secret,
		fmt.Sprintf("%q", secret): secret, fmt.Sprintf("%d", []byte(secret)): secret,
		hex.EncodeToString([]byte("<" + secret)):                 secret,
		base64.StdEncoding.EncodeToString([]byte("x" + secret)):  secret,
		base64.URLEncoding.EncodeToString([]byte("xy" + secret)): secret,
		secret[:24]: secret, secret[len(secret)-24:]: secret,
		"client ::ffff:203.0.113.77:443": "203.0.113.77", "[2001:DB8::4D]": "2001:db8::4d",
		"2001:0db8:0000:0000:0000:0000:0000:004d": "2001:db8::4d",
	} {
		if len(leaks.Leaks([]byte(output), "something else", canary)) == 0 {
			t.Errorf("not found in %s", output)
		}
	}
	for output, canary := range map[string]string{
		"key_id 4fQ/hB7vE2kR": secret, secret[:23]: secret, "1203.0.113.77 203.0.113.770": "203.0.113.77",
		"2001:db8::4dd": "2001:db8::4d",
	} {
		if found := leaks.Leaks([]byte(output), canary); len(found) != 0 {
			t.Errorf("%q: got %v, want none", output, found)
		}
	}
}
